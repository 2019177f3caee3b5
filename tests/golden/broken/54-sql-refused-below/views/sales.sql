SELECT id FROM ranked

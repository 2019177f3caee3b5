SELECT id FROM ordrs

SELECT id, total FROM recent

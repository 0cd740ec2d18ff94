SELECT version FROM {meta}
-- Fails with tables of an earlier layout, which are then completed.
WHERE NOT EXISTS (SELECT 1 FROM {shared_holder} WHERE FALSE)
  AND NOT EXISTS (SELECT 1 FROM {reader} WHERE FALSE)

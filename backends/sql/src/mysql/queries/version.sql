SELECT version FROM {meta}
-- Fails with tables of an earlier layout, so that missing tables are created.
WHERE NOT EXISTS (SELECT 1 FROM {shared_holder} WHERE FALSE)
  AND NOT EXISTS (SELECT 1 FROM {reader} WHERE FALSE)
  AND NOT EXISTS (SELECT 1 FROM {hold_fence} WHERE FALSE)

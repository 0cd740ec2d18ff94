SELECT version FROM {meta}
-- Fails if one of these tables is missing, so that the client creates it.
WHERE NOT EXISTS (SELECT 1 FROM {shared_holder} WHERE FALSE)
  AND NOT EXISTS (SELECT 1 FROM {reader} WHERE FALSE)
  AND NOT EXISTS (SELECT 1 FROM {hold_fence} WHERE FALSE)

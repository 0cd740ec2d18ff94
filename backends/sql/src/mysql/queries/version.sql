SELECT version FROM {meta}
-- Fails if a table of a later version is missing, so that the client creates it.
WHERE NOT EXISTS (SELECT 1 FROM {shared_holder} WHERE FALSE)
  AND NOT EXISTS (SELECT 1 FROM {reader} WHERE FALSE)

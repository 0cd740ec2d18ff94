-- Returns: version
SELECT version FROM {meta}
-- Tables of an earlier layout lack one of these, and are completed.
WHERE NOT EXISTS (SELECT 1 FROM {beside} WHERE FALSE)
  AND NOT EXISTS (SELECT 1 FROM {reader} WHERE FALSE)

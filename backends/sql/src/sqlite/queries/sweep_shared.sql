-- ?1 boot, ?2 before, ?3 limit
DELETE FROM lockwright_beside WHERE (name, token) IN (
    SELECT name, token FROM lockwright_beside WHERE boot <> ?1 OR expires_ns <= ?2 LIMIT ?3)

DELETE FROM lockwright_lease WHERE name IN (
    SELECT name FROM lockwright_lease WHERE boot <> ?1 OR expires_ns <= ?2 LIMIT ?3)

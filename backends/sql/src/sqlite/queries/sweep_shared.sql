DELETE FROM lockwright_shared_holder WHERE (name, token) IN (
    SELECT name, token FROM lockwright_shared_holder WHERE boot <> ?1 OR expires_ns <= ?2 LIMIT ?3)

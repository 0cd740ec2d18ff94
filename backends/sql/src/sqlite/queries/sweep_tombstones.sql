DELETE FROM lockwright_tombstone WHERE token IN (
    SELECT token FROM lockwright_tombstone WHERE boot <> ?1 OR until_ns <= ?2 LIMIT ?3)

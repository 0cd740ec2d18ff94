/* sweep_leases */
DELETE FROM lockwright_lease WHERE name IN (
    SELECT name FROM lockwright_lease WHERE boot <> ?1 OR expires_ns <= ?2 LIMIT ?3)

/* sweep_shared */
DELETE FROM lockwright_shared_holder WHERE (name, token) IN (
    SELECT name, token FROM lockwright_shared_holder WHERE boot <> ?1 OR expires_ns <= ?2 LIMIT ?3)

/* sweep_tombstones */
DELETE FROM lockwright_tombstone WHERE token IN (
    SELECT token FROM lockwright_tombstone WHERE boot <> ?1 OR until_ns <= ?2 LIMIT ?3)

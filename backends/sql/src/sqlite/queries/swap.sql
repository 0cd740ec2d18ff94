/* swap */
-- Returns no row if the hold has ended or was broken.
UPDATE lockwright_lease
SET token = ?3, identity = ?4, fence = (SELECT fence + 1 FROM lockwright_meta), fences = 1,
    ttl_ns = ?5, expires_ns = ?7 + ?5, granted_ns = ?7
WHERE name = ?1 AND token = ?2 AND boot = ?6 AND expires_ns > ?7 AND broken IS NULL
RETURNING fence, fences

/* shared_swap */
UPDATE lockwright_shared_holder
SET token = ?3, identity = ?4, fence = ?5, ttl_ns = ?6, expires_ns = ?7,
    granted_ns = ?7 - ?6
WHERE name = ?1 AND token = ?2
RETURNING fence, 1 AS fences

SELECT name, token, identity, mode, permits, size, fence, 1 AS fences, expires_ns, boot, broken
FROM lockwright_shared_holder WHERE name = ?1 AND token = ?2

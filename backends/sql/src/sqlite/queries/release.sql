DELETE FROM lockwright_lease WHERE name = ?1 AND token = ?2 RETURNING expires_ns, boot

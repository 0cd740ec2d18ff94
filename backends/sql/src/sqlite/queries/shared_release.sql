DELETE FROM lockwright_shared_holder WHERE name = ?1 AND token = ?2 RETURNING mode, expires_ns, boot

INSERT INTO {tombstone} (token, until_us, broken)
SELECT :token, @lockwright_now + GREATEST(expires - @lockwright_now, :tombstone), :broken
FROM {shared_holder}
WHERE name = :name AND token = :token AND expires > @lockwright_now AND mode <> 'exclusive'
ON DUPLICATE KEY UPDATE
    until_us = GREATEST({tombstone}.until_us, VALUES(until_us)),
    broken = COALESCE({tombstone}.broken, VALUES(broken));

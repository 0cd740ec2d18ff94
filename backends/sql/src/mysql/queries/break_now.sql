BEGIN;

UPDATE {lease} SET
    token = NULL, updated = {now}, tombstones = RIGHT(CONCAT(tombstones, ' ', :token), 16 * 33)
WHERE name = :name AND token = :token AND expires > {now};

INSERT INTO {tombstone} (token, until_us, broken)
SELECT :token, updated + GREATEST(expires - updated, :tombstone), :broken
FROM {lease} WHERE name = :name AND ROW_COUNT() > 0
ON DUPLICATE KEY UPDATE
    until_us = GREATEST({tombstone}.until_us, VALUES(until_us)),
    broken = COALESCE({tombstone}.broken, VALUES(broken));

SELECT GREATEST(expires - updated, 0) FROM {lease} WHERE name = :name AND ROW_COUNT() > 0;

COMMIT;

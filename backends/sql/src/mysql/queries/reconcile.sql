INSERT INTO {tombstone} (token, until_us) VALUES (:token, {now} + :tombstone)
ON DUPLICATE KEY UPDATE until_us = GREATEST(until_us, VALUES(until_us));

INSERT INTO {lease}
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, tombstones, decided)
SELECT :name, NULL, '', 'exclusive',
       GREATEST(meta.floor, COALESCE(seen.fence + seen.fences - 1, 0)),
       1, 0, 0, {now}, NULL, :token, 0
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
ON DUPLICATE KEY UPDATE
    tombstones = RIGHT(CONCAT({lease}.tombstones, ' ', VALUES(tombstones)), 16 * 33),
    updated = VALUES(updated);

UPDATE {lease} SET token = NULL, updated = {now}
WHERE name = :name AND token = :token AND expires > {now};

SELECT ROW_COUNT() > 0;

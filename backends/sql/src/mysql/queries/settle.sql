-- Frees the name if the token holds it, and keeps the token from ever being granted again: by a
-- tombstone for those who ask later, and by a note in the row for one who is asking just now and
-- doesn't see the tombstone. The second statement waits for that one, so the third sees what it did.
-- :name, :token, :tombstone
-- Answers: whether it held
INSERT INTO {tombstone} (token, until_us) VALUES (:token, {now} + :tombstone)
ON DUPLICATE KEY UPDATE until_us = GREATEST(until_us, VALUES(until_us));

INSERT INTO {lease}
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, buried, decided)
SELECT :name, NULL, '', 'exclusive',
       GREATEST(meta.floor, COALESCE(seen.fence + seen.fences - 1, 0)),
       1, 0, 0, {now}, NULL, :token, 0
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
ON DUPLICATE KEY UPDATE
    -- The last sixteen.
    buried = RIGHT(CONCAT({lease}.buried, ' ', VALUES(buried)), 16 * 33);

UPDATE {lease} SET token = NULL, updated = {now}
WHERE name = :name AND token = :token AND expires > {now};

SELECT ROW_COUNT() > 0;

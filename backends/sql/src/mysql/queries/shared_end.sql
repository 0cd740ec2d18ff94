-- The second column is NULL: the server has no notifications.
SET @lockwright_now = {now};

SELECT MAX(expires - @lockwright_now), COALESCE(MAX(mode <> 'exclusive'), 0)
INTO @lockwright_remaining, @lockwright_own
FROM {shared_holder} WHERE name = :name AND token = :token;

DELETE FROM {shared_holder} WHERE name = :name AND token = :token;

SELECT MAX(expires) INTO @lockwright_ends
FROM {shared_holder} WHERE name = :name AND mode <> 'exclusive' AND expires > @lockwright_now;

UPDATE {lease} SET
    token = IF(@lockwright_ends IS NULL, NULL, token),
    expires = COALESCE(@lockwright_ends, @lockwright_now), updated = @lockwright_now
WHERE name = :name AND mode <> 'exclusive' AND token IS NOT NULL AND @lockwright_own;

SELECT COALESCE(CAST(@lockwright_remaining AS SIGNED) > 0, FALSE), NULL,
       CAST(@lockwright_remaining AS SIGNED);

COMMIT;

UPDATE {shared_holder} SET broken = COALESCE(broken, :broken)
WHERE name = :name AND token = :token AND expires > @lockwright_now AND mode <> 'exclusive';

SELECT CAST(expires - @lockwright_now AS SIGNED) FROM {shared_holder}
WHERE name = :name AND token = :token AND expires > @lockwright_now AND broken IS NOT NULL;

COMMIT;

COMMIT;
DELETE FROM {reader} WHERE kind = 'row' AND name = :name AND token = :token;
SELECT RELEASE_LOCK({mark});
DO RELEASE_ALL_LOCKS();
SET SESSION wait_timeout = 60;

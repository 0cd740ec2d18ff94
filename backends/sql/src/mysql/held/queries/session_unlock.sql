SELECT RELEASE_LOCK({key}), RELEASE_LOCK({mark});
SET SESSION wait_timeout = 60;

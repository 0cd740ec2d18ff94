-- After an interrupted wait: the lock may have been granted at the last moment.
DO RELEASE_ALL_LOCKS();
SET SESSION wait_timeout = 60;

-- An interrupted wait may have acquired the lock at the last moment.
DO RELEASE_ALL_LOCKS();
SET SESSION wait_timeout = 60;

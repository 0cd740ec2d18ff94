-- After a wait that was cut off: it may have been granted in the last moment.
DO RELEASE_ALL_LOCKS();
SET SESSION wait_timeout = 60;

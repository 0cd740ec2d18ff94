-- After a wait that was cut off.
DO RELEASE_LOCK({mark});

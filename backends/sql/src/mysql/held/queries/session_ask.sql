-- The lock is the signal. The client looks for it five times a second.
DO GET_LOCK(CONCAT({joint}, :session, '/ask'), 1);
DO SLEEP(IF(IS_USED_LOCK({mark}) <=> :session, 0.25, 0));
DO RELEASE_LOCK(CONCAT({joint}, :session, '/ask'));

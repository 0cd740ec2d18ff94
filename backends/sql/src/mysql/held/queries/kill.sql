-- There is no connection 0: the server says so then, and does nothing. It says "done" when it has
-- asked the session to end; that is waited for, as far as it goes.
KILL CONNECTION IF(IS_USED_LOCK({mark}) <=> :session, :session, 0);
DO SLEEP(IF(IS_USED_LOCK({mark}) <=> :session, 0.002, 0));
DO SLEEP(IF(IS_USED_LOCK({mark}) <=> :session, 0.005, 0));
DO SLEEP(IF(IS_USED_LOCK({mark}) <=> :session, 0.01, 0));
DO SLEEP(IF(IS_USED_LOCK({mark}) <=> :session, 0.02, 0));
DO SLEEP(IF(IS_USED_LOCK({mark}) <=> :session, 0.05, 0));
DO SLEEP(IF(IS_USED_LOCK({mark}) <=> :session, 0.1, 0));
DO SLEEP(IF(IS_USED_LOCK({mark}) <=> :session, 0.3, 0));
DO SLEEP(IF(IS_USED_LOCK({mark}) <=> :session, 0.5, 0));
DO SLEEP(IF(IS_USED_LOCK({mark}) <=> :session, 1, 0));

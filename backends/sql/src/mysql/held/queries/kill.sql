-- If the session lacks the mark, this kills connection 0, which doesn't exist. KILL doesn't wait
-- for the session's end, so the SLEEPs do.
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

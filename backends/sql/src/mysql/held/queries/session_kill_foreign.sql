-- Another program's session is never joint.
KILL CONNECTION IF(IS_USED_LOCK({key}) <=> :session
                   AND IS_USED_LOCK(CONCAT({joint}, :session)) IS NULL, :session, 0);
DO SLEEP(IF(IS_USED_LOCK({key}) <=> :session, 0.02, 0));
DO SLEEP(IF(IS_USED_LOCK({key}) <=> :session, 0.05, 0));
DO SLEEP(IF(IS_USED_LOCK({key}) <=> :session, 0.1, 0));
DO SLEEP(IF(IS_USED_LOCK({key}) <=> :session, 0.3, 0));
DO SLEEP(IF(IS_USED_LOCK({key}) <=> :session, 0.5, 0));
DO SLEEP(IF(IS_USED_LOCK({key}) <=> :session, 1, 0));

SELECT found.session, IS_USED_LOCK(CONCAT({joint}, found.session)) <=> found.session
FROM (SELECT IS_USED_LOCK({mark}) AS session) AS found
WHERE found.session IS NOT NULL;

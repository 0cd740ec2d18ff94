SELECT found.session FROM (SELECT IS_USED_LOCK({mark}) AS session) AS found
WHERE found.session IS NOT NULL;

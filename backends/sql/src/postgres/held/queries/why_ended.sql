SELECT broken IS NOT NULL, released FROM {held}
WHERE kind = '{kind}' AND name = :name AND token = :token;

SELECT broken IS NOT NULL, released FROM {hold}
WHERE kind = '{kind}' AND name = :name AND token = :token;

SELECT broken IS NOT NULL, released FROM {hold}
WHERE kind = '{kind}' AND name = :name AND token = :token
UNION ALL
SELECT broken IS NOT NULL, released FROM {reader}
WHERE kind = '{kind}' AND name = :name AND token = :token;

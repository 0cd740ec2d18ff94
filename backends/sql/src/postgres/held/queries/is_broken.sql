SELECT broken IS NOT NULL FROM {hold}
WHERE kind = '{kind}' AND name = :name AND token = :token;

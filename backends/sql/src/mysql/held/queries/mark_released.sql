UPDATE {held} SET released = 1, updated = {now}
WHERE kind = '{kind}' AND name = :name AND token = :token;
SELECT 1 FROM {held} WHERE kind = '{kind}' AND name = :name AND token = :token;

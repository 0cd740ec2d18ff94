INSERT INTO {tombstone} (token, until_us) VALUES (:token, {now} + :tombstone)
ON DUPLICATE KEY UPDATE until_us = GREATEST(until_us, VALUES(until_us));

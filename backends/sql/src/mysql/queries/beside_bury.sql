-- Leaves a tombstone for a token. Before `beside_lock`, which waits for a concurrent claim with the token.
-- Later claims see the tombstone.
-- :token, :tombstone
INSERT INTO {tombstone} (token, until_us) VALUES (:token, {now} + :tombstone)
ON DUPLICATE KEY UPDATE until_us = GREATEST(until_us, VALUES(until_us));

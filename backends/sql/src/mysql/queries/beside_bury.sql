-- Keeps a token from ever being granted again. Before `beside_lock`: whoever is asking for it just now is
-- waited for there, and whoever asks later sees this.
-- :token, :tombstone
INSERT INTO {tombstone} (token, until_us) VALUES (:token, {now} + :tombstone)
ON DUPLICATE KEY UPDATE until_us = GREATEST(until_us, VALUES(until_us));

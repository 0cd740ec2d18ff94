-- Releases one hold of a joint session.
SELECT pg_advisory_unlock(:key), pg_advisory_unlock(:claim);

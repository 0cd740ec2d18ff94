-- Releases one hold of a joint session.
SELECT RELEASE_LOCK(:key), RELEASE_LOCK(:mark);

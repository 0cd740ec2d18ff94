-- Raises the sequence of fences after a crash, which may have lost the last ones, and if the sequence
-- is a minute behind the time, so that fences grow after a restore. Between the read and the write of the sequence, other sessions
-- issue far fewer fences than it is raised by.
BEGIN;
SET LOCAL synchronous_commit = local;
SELECT pg_advisory_xact_lock(5499258310474722404);
SELECT setval('{hold_fence}', greatest(last_value + 16777216, {now}))
FROM {hold_fence} WHERE {must_raise};
INSERT INTO {hold_raised} (id) VALUES (1) ON CONFLICT DO NOTHING;
COMMIT;

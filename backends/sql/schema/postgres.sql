-- Lockwright's tables on PostgreSQL. They may share a database with other tables.
--
-- Times are the server's clock_timestamp() in microseconds since 1970. A user who locks needs only SELECT,
-- INSERT, UPDATE and DELETE on all of them.

-- Serializes concurrent creation.
SELECT pg_advisory_xact_lock(5499258310474722403);

-- One row for each name that is held, or was.
CREATE TABLE IF NOT EXISTS {lease} (
    -- Compared byte by byte.
    name     text COLLATE "C" NOT NULL PRIMARY KEY,
    -- NULL after a release. The row remains for its fence.
    token    text COLLATE "C",
    -- JSON, for people: host, pid, label.
    identity text NOT NULL,
    mode     text NOT NULL,
    -- The first fence and how many were reserved. At most 2^53 - 1: other backends compare fences as doubles.
    fence    bigint NOT NULL,
    fences   integer NOT NULL CHECK (fences >= 1),
    ttl      bigint NOT NULL,
    expires  bigint NOT NULL,
    -- When it was granted, renewed or released.
    updated  bigint NOT NULL,
    -- Who broke it and why. A broken hold can't be renewed and expires.
    broken   text,
    -- The time until which a release sends a notification.
    waiting  bigint NOT NULL,
    -- The latest tokens of this name with a tombstone. A claim in progress doesn't see a new tombstone, but
    -- it sees the row.
    buried   text NOT NULL,
    CHECK (fence >= 0 AND fence + fences <= 9007199254740992)
    -- Space for the next versions of a row on its page, so that no index is written.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Tokens that must not be granted any more: released while an acquire was unanswered, or broken at once.
CREATE TABLE IF NOT EXISTS {tombstone} (
    token  text COLLATE "C" NOT NULL PRIMARY KEY,
    until  bigint NOT NULL,
    broken text
);
CREATE INDEX IF NOT EXISTS {prefix}_tombstone_until ON {tombstone} (until);

-- Shared holders: readers, or the holders of permits. The row of their name above has the token `readers` or
-- `semaphore of N`. Its fence is the shared one of the readers or the number of the last permit, and it
-- expires with the last holder. So an exclusive claim needs no look at this table. The row of the name is
-- locked before rows here are changed.
--
-- A writer that waits for readers also has a row, with the mode `exclusive`. Until it expires, or the fence
-- has changed, new readers are rejected.
CREATE TABLE IF NOT EXISTS {beside} (
    name     text COLLATE "C" NOT NULL,
    token    text COLLATE "C" NOT NULL,
    -- JSON, for people: host, pid, label.
    identity text NOT NULL,
    mode     text NOT NULL,
    -- The permits that it holds, of `size`. Both are 0 for other modes.
    permits  bigint NOT NULL,
    size     bigint NOT NULL,
    -- The shared fence of the readers, the number of a permit, or the fence of the readers that a writer
    -- waits for.
    fence    bigint NOT NULL,
    ttl      bigint NOT NULL,
    expires  bigint NOT NULL,
    updated  bigint NOT NULL,
    -- Who broke it and why. A broken hold can't be renewed and expires.
    broken   text,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- One row. Every name without a row starts above the floor, so a row may be deleted once the floor is at its
-- last fence.
CREATE TABLE IF NOT EXISTS {meta} (
    id      integer PRIMARY KEY CHECK (id = 1),
    version integer NOT NULL,
    floor   bigint NOT NULL
);
INSERT INTO {meta} (id, version, floor) VALUES (1, 1, 0) ON CONFLICT (id) DO NOTHING;

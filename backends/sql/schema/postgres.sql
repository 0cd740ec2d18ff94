-- Lockwright's tables on PostgreSQL. They may stand beside an application's own tables.
--
-- Times are the server's clock_timestamp() in microseconds since 1970. A user who locks needs
-- SELECT, INSERT, UPDATE and DELETE on all of them, and nothing else.

-- Two who begin at once make them one after the other.
SELECT pg_advisory_xact_lock(5499258310474722403);

-- One row for each name that is held, or was.
CREATE TABLE IF NOT EXISTS {lease} (
    -- Compared byte by byte.
    name     text COLLATE "C" NOT NULL PRIMARY KEY,
    -- NULL when it was released. The row stays for the sake of its fence.
    token    text COLLATE "C",
    -- JSON, for people: host, pid, label.
    identity text NOT NULL,
    mode     text NOT NULL,
    -- The first fence and how many were reserved. At most 2^53 - 1: other backends' fences are
    -- compared as doubles, so all of them end there.
    fence    bigint NOT NULL,
    fences   integer NOT NULL CHECK (fences >= 1),
    ttl      bigint NOT NULL,
    expires  bigint NOT NULL,
    -- When it was granted, renewed or released.
    updated  bigint NOT NULL,
    -- Who broke it and why. A broken hold can't be renewed and runs out.
    broken   text,
    -- Until when a release must be told.
    waiting  bigint NOT NULL,
    -- The tokens that were last buried under this name. A claim that is under way while its token
    -- is buried doesn't see the tombstone, but it sees the row.
    buried   text NOT NULL,
    CHECK (fence >= 0 AND fence + fences <= 9007199254740992)
    -- Room for the next versions of a row beside it, so that no index is written.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Tokens that must not be granted any more: released while an acquire of theirs was unanswered, or
-- broken at once.
CREATE TABLE IF NOT EXISTS {tombstone} (
    token  text COLLATE "C" NOT NULL PRIMARY KEY,
    until  bigint NOT NULL,
    broken text
);
CREATE INDEX IF NOT EXISTS {prefix}_tombstone_until ON {tombstone} (until);

-- Those who hold a name beside each other: readers, or the holders of permits. Their name's row above says
-- so: its token is `readers` or `semaphore of N`, its fence is the one that the readers share or the last
-- permit's number, and it runs out with the last of them. So a claim that wants the name for itself has
-- nothing to look for here. Whoever changes rows here has locked the name's row before.
--
-- A writer that waits for readers has a row too, with the mode `exclusive`. Until it expires, or the fence
-- has moved on, no new reader is let in.
CREATE TABLE IF NOT EXISTS {beside} (
    name     text COLLATE "C" NOT NULL,
    token    text COLLATE "C" NOT NULL,
    -- JSON, for people: host, pid, label.
    identity text NOT NULL,
    mode     text NOT NULL,
    -- How many it has of how many there are; 0 but for permits.
    permits  bigint NOT NULL,
    size     bigint NOT NULL,
    -- The fence that readers share, a permit's number, or that of those whom a writer waits for.
    fence    bigint NOT NULL,
    ttl      bigint NOT NULL,
    expires  bigint NOT NULL,
    updated  bigint NOT NULL,
    -- Who broke it and why. A broken hold can't be renewed and runs out.
    broken   text,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- One row. Every name that has no row of its own starts above the floor, so a row may go once the
-- floor is at its last fence.
CREATE TABLE IF NOT EXISTS {meta} (
    id      integer PRIMARY KEY CHECK (id = 1),
    version integer NOT NULL,
    floor   bigint NOT NULL
);
INSERT INTO {meta} (id, version, floor) VALUES (1, 1, 0) ON CONFLICT (id) DO NOTHING;

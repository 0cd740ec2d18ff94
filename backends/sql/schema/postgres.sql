-- Lockwright's tables on PostgreSQL. The database may also contain other tables.
--
-- Times are clock_timestamp() in microseconds since 1970. Clients that lock need only the
-- permissions SELECT, INSERT, UPDATE and DELETE.

-- Serializes concurrent creations of the tables.
SELECT pg_advisory_xact_lock(5499258310474722403);

-- One row for each name that is or was held.
CREATE TABLE IF NOT EXISTS {lease} (
    -- The collation "C" compares names byte by byte.
    name     text COLLATE "C" NOT NULL PRIMARY KEY,
    -- NULL after a release. The row stays, because it has the last fence.
    token    text COLLATE "C",
    -- JSON for operators: host, pid, label.
    identity text NOT NULL,
    mode     text NOT NULL,
    -- Each grant reserves `fences` fences, and `fence` is the first of them. They are at most 2^53
    -- - 1, because other backends compare fences as doubles.
    fence    bigint NOT NULL,
    fences   integer NOT NULL CHECK (fences >= 1),
    ttl      bigint NOT NULL,
    expires  bigint NOT NULL,
    -- The time of the last grant, renewal or release.
    updated  bigint NOT NULL,
    -- The operator who broke the hold, and the reason. A broken hold isn't renewed.
    broken   text,
    -- A release before this time notifies waiters.
    waiting  bigint NOT NULL,
    -- The tokens of the latest tombstones. They are repeated here, because a concurrent acquire may
    -- not see a new row of the table of tombstones.
    tombstones text NOT NULL,
    CHECK (fence >= 0 AND fence + fences <= 9007199254740992)
    -- The free half of each page takes new row versions, so updates don't write to an index.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Tokens that are never granted again, because their acquire was abandoned, or their hold was
-- broken or transferred.
CREATE TABLE IF NOT EXISTS {tombstone} (
    token  text COLLATE "C" NOT NULL PRIMARY KEY,
    until  bigint NOT NULL,
    broken text
);
CREATE INDEX IF NOT EXISTS {prefix}_tombstone_until ON {tombstone} (until);

-- Readers, holders of permits, and writers that wait for readers.
--
-- The name's row in {lease} summarizes the holders. Its token is `readers` or `semaphore of N`, its
-- fence is that of the readers or of the last permit, and it expires with the last holder. A client
-- locks that row before it changes rows of this table.
--
-- A row with the mode `exclusive` is a waiting writer. New readers are rejected until that row
-- expires or the name's fence changes.
CREATE TABLE IF NOT EXISTS {shared_holder} (
    name     text COLLATE "C" NOT NULL,
    token    text COLLATE "C" NOT NULL,
    identity text NOT NULL,
    mode     text NOT NULL,
    -- The number of permits and the semaphore's size. Both are 0 for readers and writers.
    permits  bigint NOT NULL,
    size     bigint NOT NULL,
    -- The fence of the readers, the number of the first permit, or the fence of the readers that a
    -- writer waits for.
    fence    bigint NOT NULL,
    ttl      bigint NOT NULL,
    expires  bigint NOT NULL,
    updated  bigint NOT NULL,
    broken   text,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- One row. The fences of a name without a row start above `floor`, so a row whose fences are at
-- most `floor` may be deleted.
CREATE TABLE IF NOT EXISTS {meta} (
    id      integer PRIMARY KEY CHECK (id = 1),
    version integer NOT NULL,
    floor   bigint NOT NULL
);
INSERT INTO {meta} (id, version, floor) VALUES (1, 1, 0) ON CONFLICT (id) DO NOTHING;

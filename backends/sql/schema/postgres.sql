-- Lockwright's tables for leases on PostgreSQL.
--
-- Times are clock_timestamp() in microseconds since 1970. Locking needs only SELECT, INSERT, UPDATE
-- and DELETE on the tables, and SELECT and UPDATE on the sequence of fences.

-- Serializes concurrent creations of the tables.
SELECT pg_advisory_xact_lock(5499258310474722403);

-- One row for each name that is or was held.
CREATE TABLE IF NOT EXISTS {lease} (
    name     text COLLATE "C" NOT NULL PRIMARY KEY,
    -- NULL after a release. The row stays: it has the name's last fence.
    token    text COLLATE "C",
    -- JSON for operators: host, pid, label.
    identity text NOT NULL,
    mode     text NOT NULL,
    -- The hold's first fence, and the number of its fences. The last fence is at most 2^53 - 1,
    -- because some backends store fences as doubles.
    fence    bigint NOT NULL,
    fences   integer NOT NULL CHECK (fences >= 1),
    ttl      bigint NOT NULL,
    expires  bigint NOT NULL,
    -- The time of the last grant, renewal or release.
    updated  bigint NOT NULL,
    -- Who broke the hold, and why.
    broken   text,
    -- Until this time, a release notifies waiters.
    waiting  bigint NOT NULL,
    -- The name's latest tokens with a tombstone. An acquire that waited for this row reads them
    -- here, because its snapshot may lack the tombstones.
    tombstones text NOT NULL,
    CHECK (fence >= 0 AND fence + fences <= 9007199254740992)
    -- Each page keeps space for new row versions, so updates write no index.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Tokens that are never granted again: of abandoned acquires, and of broken or transferred holds.
CREATE TABLE IF NOT EXISTS {tombstone} (
    token  text COLLATE "C" NOT NULL PRIMARY KEY,
    until  bigint NOT NULL,
    broken text
);
CREATE INDEX IF NOT EXISTS {prefix}_tombstone_until ON {tombstone} (until);

-- Readers, holders of permits, and writers that wait for readers.
--
-- While a name has readers or permit holders, its row in {lease} has the token `readers` or
-- `semaphore of N`, and their latest expiry. Clients lock that row before they change a holder's
-- row here.
--
-- A row with the mode `exclusive` records a waiting writer, who keeps new readers out until the row
-- expires or a grant changes the name's fence.
CREATE TABLE IF NOT EXISTS {shared_holder} (
    name     text COLLATE "C" NOT NULL,
    token    text COLLATE "C" NOT NULL,
    identity text NOT NULL,
    mode     text NOT NULL,
    -- The permits and the size that the holder gave, or 0 for readers and writers.
    permits  bigint NOT NULL,
    size     bigint NOT NULL,
    -- The readers' common fence, a permit holder's unique number, or, for a waiting writer, the
    -- fence of the readers before it.
    fence    bigint NOT NULL,
    ttl      bigint NOT NULL,
    expires  bigint NOT NULL,
    updated  bigint NOT NULL,
    broken   text,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- One row. A new row in {lease} gets a fence above `floor`, so a sweep may delete rows with fences
-- up to `floor`.
CREATE TABLE IF NOT EXISTS {meta} (
    id      integer PRIMARY KEY CHECK (id = 1),
    version integer NOT NULL,
    floor   bigint NOT NULL
);
INSERT INTO {meta} (id, version, floor) VALUES (1, 1, 0) ON CONFLICT (id) DO NOTHING;

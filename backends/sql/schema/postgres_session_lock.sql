-- Holds of the modes `session` and `row`. Only pg_locks and pg_stat_activity show whether a hold
-- still exists.
--
-- A crash of the server ends all holds, so it may empty the unlogged tables.

-- The fences of all names. Clients don't wait until the last fences are on disk, so a crash may
-- lose them. The first client after a crash raises the sequence above all issued fences.
CREATE SEQUENCE IF NOT EXISTS {hold_fence} AS bigint MAXVALUE 9007199254740991;

-- Has a row if the sequence was raised since the last crash.
CREATE UNLOGGED TABLE IF NOT EXISTS {hold_raised} (
    id integer PRIMARY KEY CHECK (id = 1)
);

-- The last recorded holder of each name.
CREATE UNLOGGED TABLE IF NOT EXISTS {hold} (
    -- `session` or `row`
    kind     text   NOT NULL,
    name     text   COLLATE "C" NOT NULL,
    token    text   NOT NULL,
    identity text   NOT NULL,
    fence    bigint NOT NULL,
    ttl_ms   bigint NOT NULL,
    -- The process id of the holder's session.
    session  bigint NOT NULL,
    updated  timestamptz NOT NULL,
    broken   text,
    -- Whether another connection released the hold.
    released boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, name)
);

-- Readers, and tombstones of broken holds. While a name has readers, its row in {hold} has the
-- token `readers` and the fence that they share.
CREATE UNLOGGED TABLE IF NOT EXISTS {reader} (
    LIKE {hold} INCLUDING DEFAULTS, PRIMARY KEY (kind, name, token)
);

-- The rows that the mode `row` locks. Other tables have the holders, because the recording session
-- can't write a locked row.
CREATE TABLE IF NOT EXISTS {row} (
    name text COLLATE "C" PRIMARY KEY
);

-- Holds of the modes `session` and `row`. Only pg_locks and pg_stat_activity show whether a session
-- still holds.

-- The last holder of each name.
CREATE TABLE IF NOT EXISTS {hold} (
    -- `session` or `row`
    kind     text   NOT NULL,
    name     text   COLLATE "C" NOT NULL,
    token    text   NOT NULL,
    identity text   NOT NULL,
    fence    bigint NOT NULL CHECK (fence BETWEEN 1 AND 9007199254740991),
    ttl_ms   bigint NOT NULL,
    -- The process id of the holder's session.
    session  bigint NOT NULL,
    updated  timestamptz NOT NULL,
    broken   text,
    -- Whether another connection released the hold.
    released boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, name)
);

-- Readers. While a name has readers, its row in {hold} has the token `readers` and their fence.
CREATE TABLE IF NOT EXISTS {reader} (
    kind     text   NOT NULL,
    name     text   COLLATE "C" NOT NULL,
    token    text   NOT NULL,
    identity text   NOT NULL,
    fence    bigint NOT NULL CHECK (fence BETWEEN 1 AND 9007199254740991),
    ttl_ms   bigint NOT NULL,
    session  bigint NOT NULL,
    updated  timestamptz NOT NULL,
    broken   text,
    released boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, name, token)
);

-- The rows that the mode `row` locks. They never change, because a locked row can't be written.
CREATE TABLE IF NOT EXISTS {row} (
    name text COLLATE "C" PRIMARY KEY
);

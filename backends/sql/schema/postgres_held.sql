-- Holds in sessions, with their fences and identities. Only pg_locks and pg_stat_activity show whether a session still
-- holds.

-- The last holder of each name.
CREATE TABLE IF NOT EXISTS {hold} (
    -- session or row, which don't exclude each other.
    kind     text   NOT NULL,
    -- Compared byte by byte.
    name     text   COLLATE "C" NOT NULL,
    token    text   NOT NULL,
    identity text   NOT NULL,
    fence    bigint NOT NULL CHECK (fence BETWEEN 1 AND 9007199254740991),
    ttl_ms   bigint NOT NULL,
    -- The session's process id on the server.
    session  bigint NOT NULL,
    updated  timestamptz NOT NULL,
    broken   text,
    -- Whether another connection released the hold.
    released boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, name)
);

-- Readers. Their name's row in the table above has the token `readers` and the same fence.
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

-- The rows that the mode "row" locks. They never change: a row locked for long can't be written.
CREATE TABLE IF NOT EXISTS {row} (
    name text COLLATE "C" PRIMARY KEY
);

-- Holds in sessions. The lock itself is the server's, and ends with its session; these rows give the
-- fence, and tell operators who it was. Whether a session still holds, only pg_locks and
-- pg_stat_activity say.

-- Who got a name last.
CREATE TABLE IF NOT EXISTS {hold} (
    -- session or row: they don't exclude each other.
    kind     text   NOT NULL,
    -- Compared byte by byte.
    name     text   COLLATE "C" NOT NULL,
    token    text   NOT NULL,
    -- JSON, for people: host, pid, label.
    identity text   NOT NULL,
    fence    bigint NOT NULL CHECK (fence BETWEEN 1 AND 9007199254740991),
    ttl_ms   bigint NOT NULL,
    -- The process id of the session on the server.
    session  bigint NOT NULL,
    updated  timestamptz NOT NULL,
    -- Who broke it and why.
    broken   text,
    -- Whether it was released through another connection than its own.
    released boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, name)
);

-- Who reads a name beside others. The name's row above says so: its token is `readers`, and its fence
-- is theirs as well. The columns are those above.
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

-- What is locked in the mode "row". Nothing ever changes in it: a row that is locked for long can't
-- be the one that is written to.
CREATE TABLE IF NOT EXISTS {row} (
    name text COLLATE "C" PRIMARY KEY
);

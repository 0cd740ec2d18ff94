-- Holds in sessions. The lock itself is the server's, and ends with its session; these rows give the
-- fence, and tell operators who it was. Whether a session still holds, only the server's own locks
-- say.

-- Who got a name last.
CREATE TABLE IF NOT EXISTS {hold} (
    -- session or row: they don't exclude each other.
    kind     VARCHAR(8)   NOT NULL,
    name     VARCHAR(512) NOT NULL,
    token    VARCHAR(32)  NOT NULL,
    -- JSON, for people: host, pid, label.
    identity TEXT         NOT NULL,
    fence    BIGINT       NOT NULL,
    ttl_ms   BIGINT       NOT NULL,
    -- The number of the connection on the server.
    session  BIGINT       NOT NULL,
    updated  BIGINT       NOT NULL,
    -- Who broke it and why.
    broken   TEXT,
    -- Whether it was released through another connection than its own.
    released TINYINT      NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, name),
    CONSTRAINT {prefix}_hold_fence CHECK (fence BETWEEN 1 AND 9007199254740991)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Who reads a name beside others. The name's row above says so: its token is `readers`, and its fence
-- is theirs as well. The columns are those above.
CREATE TABLE IF NOT EXISTS {reader} (
    kind     VARCHAR(8)   NOT NULL,
    name     VARCHAR(512) NOT NULL,
    token    VARCHAR(32)  NOT NULL,
    identity TEXT         NOT NULL,
    fence    BIGINT       NOT NULL,
    ttl_ms   BIGINT       NOT NULL,
    session  BIGINT       NOT NULL,
    updated  BIGINT       NOT NULL,
    broken   TEXT,
    released TINYINT      NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, name, token),
    CONSTRAINT {prefix}_reader_fence CHECK (fence BETWEEN 1 AND 9007199254740991)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What is locked in the mode "row". Nothing ever changes in it: a row that is locked for long can't
-- be the one that is written to.
CREATE TABLE IF NOT EXISTS {row} (
    name VARCHAR(512) NOT NULL PRIMARY KEY
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

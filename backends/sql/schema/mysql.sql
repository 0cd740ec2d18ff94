-- Lockwright's tables on MySQL or MariaDB. They may share a database with other tables.
--
-- Times are the server's SYSDATE(6) as microseconds since 1970. A user who locks needs only SELECT, INSERT,
-- UPDATE and DELETE. Names are compared byte by byte, as most collations ignore case.

-- One row for each name that is held, or was.
CREATE TABLE IF NOT EXISTS {lease} (
    name     VARCHAR(512) NOT NULL PRIMARY KEY,
    -- NULL after a release. The row remains for its fence.
    token    VARCHAR(32),
    -- JSON, for people: host, pid, label.
    identity TEXT NOT NULL,
    mode     VARCHAR(16) NOT NULL,
    -- The first fence and how many were reserved. At most 2^53 - 1, as other backends compare doubles.
    fence    BIGINT NOT NULL,
    fences   INT NOT NULL,
    ttl      BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    -- When it was granted, renewed or released.
    updated  BIGINT NOT NULL,
    -- Who broke it and why. A broken hold can't be renewed and expires.
    broken   TEXT,
    -- The latest tokens with a tombstone, which a concurrent claim may not see.
    buried   VARCHAR(600) NOT NULL,
    -- The result of the last acquire: 2 a new hold, 1 a renewal, 0 nothing. Only for its later assignments.
    decided  TINYINT NOT NULL,
    CONSTRAINT {prefix}_lease_fences CHECK (fences >= 1),
    CONSTRAINT {prefix}_lease_fence CHECK (fence >= 0 AND fence + fences <= 9007199254740992)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Tokens that must not be granted any more: released during an acquire, or broken at once.
CREATE TABLE IF NOT EXISTS {tombstone} (
    token    VARCHAR(32) NOT NULL PRIMARY KEY,
    until_us BIGINT NOT NULL,
    broken   TEXT,
    KEY {prefix}_tombstone_until (until_us)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Shared holders: readers, or the holders of permits. Their name's row above has the token `readers` or
-- `semaphore of N`. Its fence is the readers' shared one or the last permit's number, and it expires with the
-- last holder. So an exclusive claim doesn't read this table. The name's row is locked before changes here.
--
-- A writer that waits for readers also has a row, with the mode `exclusive`. Until it expires or the fence
-- changes, new readers are rejected.
CREATE TABLE IF NOT EXISTS {beside} (
    name     VARCHAR(512) NOT NULL,
    token    VARCHAR(32) NOT NULL,
    identity TEXT NOT NULL,
    mode     VARCHAR(16) NOT NULL,
    -- The permits that it holds, of `size`. Both are 0 for other modes.
    permits  BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    -- The readers' shared fence, the permit's number, or the fence of the readers that a writer waits for.
    fence    BIGINT NOT NULL,
    ttl      BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    updated  BIGINT NOT NULL,
    broken   TEXT,
    PRIMARY KEY (name, token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row, created last. A name without a row starts above the floor, so a row may be deleted once the floor
-- is at its last fence.
CREATE TABLE IF NOT EXISTS {meta} (
    id      INT NOT NULL PRIMARY KEY,
    version INT NOT NULL,
    floor   BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

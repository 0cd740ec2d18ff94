-- Lockwright's tables on MySQL or MariaDB. Other tables may be in the same database.
--
-- Times are SYSDATE(6) as microseconds since 1970. Locking needs only SELECT, INSERT, UPDATE and DELETE.
-- Names are compared byte by byte, as most collations ignore case.

-- One row for each name that is or was held.
CREATE TABLE IF NOT EXISTS {lease} (
    name     VARCHAR(512) NOT NULL PRIMARY KEY,
    -- NULL after a release. The row keeps the fence.
    token    VARCHAR(32),
    -- JSON, for people: host, pid, label.
    identity TEXT NOT NULL,
    mode     VARCHAR(16) NOT NULL,
    -- The first of the reserved fences, and their number. At most 2^53 - 1, as other backends compare doubles.
    fence    BIGINT NOT NULL,
    fences   INT NOT NULL,
    ttl      BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    -- The time of the last grant, renewal or release.
    updated  BIGINT NOT NULL,
    -- Who broke the hold, and why. A broken hold isn't renewed.
    broken   TEXT,
    -- The latest tokens with a tombstone. A concurrent claim may not see the tombstone's own row.
    tombstones VARCHAR(600) NOT NULL,
    -- The last acquire's result: 2 a new hold, 1 a renewal, 0 nothing.
    decided  TINYINT NOT NULL,
    CONSTRAINT {prefix}_lease_fences CHECK (fences >= 1),
    CONSTRAINT {prefix}_lease_fence CHECK (fence >= 0 AND fence + fences <= 9007199254740992)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Tokens that are never granted again: released during an acquire, or broken at once.
CREATE TABLE IF NOT EXISTS {tombstone} (
    token    VARCHAR(32) NOT NULL PRIMARY KEY,
    until_us BIGINT NOT NULL,
    broken   TEXT,
    KEY {prefix}_tombstone_until (until_us)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Readers and holders of permits. Their name's row has the token `readers` or `semaphore of N`, the fence of the
-- readers or of the last permit, and the expiry of the last holder. That row is locked before changes here.
--
-- A row with the mode `exclusive` is a writer that waits for readers. Until it expires or the fence
-- changes, new readers are rejected.
CREATE TABLE IF NOT EXISTS {shared_holder} (
    name     VARCHAR(512) NOT NULL,
    token    VARCHAR(32) NOT NULL,
    identity TEXT NOT NULL,
    mode     VARCHAR(16) NOT NULL,
    -- Permits and semaphore size, or 0 for other modes.
    permits  BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    -- The fence, the permit's number, or the fence of the readers that a writer waits for.
    fence    BIGINT NOT NULL,
    ttl      BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    updated  BIGINT NOT NULL,
    broken   TEXT,
    PRIMARY KEY (name, token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row, created last. A name without a row gets fences above the floor, so a row at or below it may be deleted.
CREATE TABLE IF NOT EXISTS {meta} (
    id      INT NOT NULL PRIMARY KEY,
    version INT NOT NULL,
    floor   BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

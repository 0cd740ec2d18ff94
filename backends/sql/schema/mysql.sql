-- Lockwright's tables on MySQL or MariaDB. The database may also contain other tables.
--
-- Times are SYSDATE(6) in microseconds since 1970. Clients that lock need only the permissions
-- SELECT, INSERT, UPDATE and DELETE. Names are compared byte by byte, because most collations
-- ignore case.

-- One row for each name that is or was held.
CREATE TABLE IF NOT EXISTS {lease} (
    name     VARCHAR(512) NOT NULL PRIMARY KEY,
    -- NULL after a release. The row stays, because it has the last fence.
    token    VARCHAR(32),
    -- JSON for operators: host, pid, label.
    identity TEXT NOT NULL,
    mode     VARCHAR(16) NOT NULL,
    -- Each grant reserves `fences` fences, and `fence` is the first of them. They are at most 2^53
    -- - 1, because other backends compare fences as doubles.
    fence    BIGINT NOT NULL,
    fences   INT NOT NULL,
    ttl      BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    -- The time of the last grant, renewal or release.
    updated  BIGINT NOT NULL,
    -- The operator who broke the hold, and the reason. A broken hold isn't renewed.
    broken   TEXT,
    -- The tokens of the latest tombstones. They are repeated here, because a concurrent acquire may
    -- not see a new row of the table of tombstones.
    tombstones VARCHAR(600) NOT NULL,
    -- The effect of the last acquire: 2 is a new hold, 1 a renewed hold, 0 no change.
    decided  TINYINT NOT NULL,
    CONSTRAINT {prefix}_lease_fences CHECK (fences >= 1),
    CONSTRAINT {prefix}_lease_fence CHECK (fence >= 0 AND fence + fences <= 9007199254740992)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Tokens that are never granted again, because their acquire was abandoned, or their hold was
-- broken or transferred.
CREATE TABLE IF NOT EXISTS {tombstone} (
    token    VARCHAR(32) NOT NULL PRIMARY KEY,
    until_us BIGINT NOT NULL,
    broken   TEXT,
    KEY {prefix}_tombstone_until (until_us)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Readers, holders of permits, and writers that wait for readers.
--
-- The name's row in {lease} summarizes the holders. Its token is `readers` or `semaphore of N`, its
-- fence is that of the readers or of the last permit, and it expires with the last holder. A client
-- locks that row before it changes rows of this table.
--
-- A row with the mode `exclusive` is a waiting writer. New readers are rejected until that row
-- expires or the name's fence changes.
CREATE TABLE IF NOT EXISTS {shared_holder} (
    name     VARCHAR(512) NOT NULL,
    token    VARCHAR(32) NOT NULL,
    identity TEXT NOT NULL,
    mode     VARCHAR(16) NOT NULL,
    -- The number of permits and the semaphore's size. Both are 0 for readers and writers.
    permits  BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    -- The fence of the readers, the number of the first permit, or the fence of the readers that a
    -- writer waits for.
    fence    BIGINT NOT NULL,
    ttl      BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    updated  BIGINT NOT NULL,
    broken   TEXT,
    PRIMARY KEY (name, token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row, created last. The fences of a name without a row start above `floor`, so a row whose
-- fences are at most `floor` may be deleted.
CREATE TABLE IF NOT EXISTS {meta} (
    id      INT NOT NULL PRIMARY KEY,
    version INT NOT NULL,
    floor   BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

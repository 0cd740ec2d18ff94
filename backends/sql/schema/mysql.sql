-- Lockwright's tables for leases on MySQL or MariaDB.
--
-- Times are SYSDATE(6) in microseconds since 1970. Locking needs only SELECT, INSERT, UPDATE and
-- DELETE. Names are compared byte by byte, because most collations ignore case.

-- One row for each name that is or was held.
CREATE TABLE IF NOT EXISTS {lease} (
    name     VARCHAR(512) NOT NULL PRIMARY KEY,
    -- NULL after a release. The row stays: it has the name's last fence.
    token    VARCHAR(32),
    -- JSON for operators: host, pid, label.
    identity TEXT NOT NULL,
    mode     VARCHAR(16) NOT NULL,
    -- The hold's first fence, and the number of its fences. The last fence is at most 2^53 - 1,
    -- because some backends store fences as doubles.
    fence    BIGINT NOT NULL,
    fences   INT NOT NULL,
    ttl      BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    -- The time of the last grant, renewal or release.
    updated  BIGINT NOT NULL,
    -- Who broke the hold, and why.
    broken   TEXT,
    -- The name's latest tokens with a tombstone. An acquire that waited for this row reads them
    -- here, because its snapshot may lack the tombstones.
    tombstones VARCHAR(600) NOT NULL,
    -- The last `acquire`'s effect: 2 a new hold, 1 a renewal of the token's own hold, 0 none.
    decided  TINYINT NOT NULL,
    CONSTRAINT {prefix}_lease_fences CHECK (fences >= 1),
    CONSTRAINT {prefix}_lease_fence CHECK (fence >= 0 AND fence + fences <= 9007199254740992)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Tokens that are never granted again: of abandoned acquires, and of broken or transferred holds.
CREATE TABLE IF NOT EXISTS {tombstone} (
    token    VARCHAR(32) NOT NULL PRIMARY KEY,
    until_us BIGINT NOT NULL,
    broken   TEXT,
    KEY {prefix}_tombstone_until (until_us)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Readers, holders of permits, and writers that wait for readers.
--
-- While a name has readers or permit holders, its row in {lease} has the token `readers` or
-- `semaphore of N`, and their latest expiry. Clients lock that row before they change a holder's
-- row here.
--
-- A row with the mode `exclusive` records a waiting writer, who keeps new readers out until the row
-- expires or a grant changes the name's fence.
CREATE TABLE IF NOT EXISTS {shared_holder} (
    name     VARCHAR(512) NOT NULL,
    token    VARCHAR(32) NOT NULL,
    identity TEXT NOT NULL,
    mode     VARCHAR(16) NOT NULL,
    -- The permits and the size that the holder gave, or 0 for readers and writers.
    permits  BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    -- The readers' common fence, a permit holder's unique number, or, for a waiting writer, the
    -- fence of the readers before it.
    fence    BIGINT NOT NULL,
    ttl      BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    updated  BIGINT NOT NULL,
    broken   TEXT,
    PRIMARY KEY (name, token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row. A new row in {lease} gets a fence above `floor`, so a sweep may delete rows with fences
-- up to `floor`.
CREATE TABLE IF NOT EXISTS {meta} (
    id      INT NOT NULL PRIMARY KEY,
    version INT NOT NULL,
    floor   BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The names that transactions have locked. Unlocked rows may be deleted at any time.
CREATE TABLE IF NOT EXISTS {turn} (
    name VARCHAR(512) NOT NULL PRIMARY KEY,
    -- Each transaction increments this number. On a cluster, transactions on two nodes may both
    -- lock a name, but only one can commit its increment.
    turns BIGINT NOT NULL,
    -- The last use, in UTC.
    used DATETIME NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- For each name, the highest fence that `check_fence` has accepted. A row may be deleted once all
-- holders from before `updated` have ended their writes.
CREATE TABLE IF NOT EXISTS {fence} (
    name VARCHAR(512) NOT NULL PRIMARY KEY,
    fence BIGINT NOT NULL,
    updated DATETIME NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The tables of `lock_in_transaction` and `check_fence`.

-- The names that a transaction has locked. A row may be deleted at any time.
CREATE TABLE IF NOT EXISTS {turn} (
    name VARCHAR(512) NOT NULL PRIMARY KEY,
    -- Changed by each transaction, so that only one of two on different cluster nodes can commit.
    turns BIGINT NOT NULL,
    -- The last use, in UTC.
    used DATETIME NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The highest fence used for a write. A row may be deleted once no holder from before `updated` can write.
CREATE TABLE IF NOT EXISTS {fence} (
    name VARCHAR(512) NOT NULL PRIMARY KEY,
    fence BIGINT NOT NULL,
    updated DATETIME NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What `lock_in_transaction` locks and `check_fence` compares with, in the transactions of an
-- application.

-- One row for each name that a transaction has locked. It may be deleted at any time: a transaction
-- that has locked it keeps it until its end.
CREATE TABLE IF NOT EXISTS {turn} (
    name VARCHAR(512) NOT NULL PRIMARY KEY,
    -- Changed by each one, so that two on different nodes of a cluster can't both be committed.
    turns BIGINT NOT NULL,
    -- UTC.
    used DATETIME NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The highest fence that was written with, for each name. A row may be deleted once nobody can come
-- back any more who held the name before `updated`.
CREATE TABLE IF NOT EXISTS {fence} (
    name VARCHAR(512) NOT NULL PRIMARY KEY,
    fence BIGINT NOT NULL,
    -- UTC.
    updated DATETIME NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

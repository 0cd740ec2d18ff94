-- Holds of the modes `session` and `row`. Only the server's locks show whether a hold still exists.

-- MariaDB's sequence of fences. MySQL has no sequences: there this table is unused, and a name's
-- row in {hold} determines the next fence.
CREATE /*M!100300 SEQUENCE IF NOT EXISTS {hold_fence} MAXVALUE 9007199254740991 */
       /*!80000 TABLE IF NOT EXISTS {hold_fence} (id INT NOT NULL PRIMARY KEY) */ ENGINE = InnoDB;

-- The last recorded holder of each name.
CREATE TABLE IF NOT EXISTS {hold} (
    -- `session` or `row`
    kind     VARCHAR(8)   NOT NULL,
    name     VARCHAR(512) NOT NULL,
    token    VARCHAR(32)  NOT NULL,
    identity TEXT         NOT NULL,
    fence    BIGINT       NOT NULL,
    ttl_ms   BIGINT       NOT NULL,
    -- The id of the holder's connection.
    session  BIGINT       NOT NULL,
    updated  BIGINT       NOT NULL,
    broken   TEXT,
    -- Whether another connection released the hold.
    released TINYINT      NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, name),
    CONSTRAINT {prefix}_hold_fence CHECK (fence BETWEEN 1 AND 9007199254740991)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Readers, and tombstones of broken holds. While a name has readers, its row in {hold} has the
-- token `readers` and the fence that they share.
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

-- The rows that the mode `row` locks. Other tables have the holders, because the recording session
-- can't write a locked row.
CREATE TABLE IF NOT EXISTS {row} (
    name VARCHAR(512) NOT NULL PRIMARY KEY
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Lockwright's tables in a SQLite file.
--
-- Columns that end in _ns are nanoseconds of CLOCK_BOOTTIME. That clock restarts at each boot, so
-- rows with the id of another boot have expired.

-- One row. `fence` is the highest fence ever granted, so no name gets a fence twice, even after the
-- name's row was deleted.
CREATE TABLE lockwright_meta (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,
    -- At most 2^53 - 1, because some backends store fences as doubles.
    fence   INTEGER NOT NULL CHECK (fence BETWEEN 0 AND 9007199254740991)
) STRICT;

-- One row for each name that is held, or whose last hold expired.
CREATE TABLE lockwright_lease (
    name       TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
    token      TEXT    NOT NULL,
    -- JSON for operators: host, pid, label.
    identity   TEXT    NOT NULL,
    mode       TEXT    NOT NULL,
    -- The hold's first fence, and the number of its fences.
    fence      INTEGER NOT NULL,
    fences     INTEGER NOT NULL CHECK (fences >= 1),
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    granted_ns INTEGER NOT NULL,
    -- Who broke the hold, and why.
    broken     TEXT
) STRICT, WITHOUT ROWID;

-- The triggers run within the grant's statement, so even after a crash, no grant's fence exceeds
-- `lockwright_meta.fence`.
CREATE TRIGGER lockwright_grant AFTER INSERT ON lockwright_lease BEGIN
    UPDATE lockwright_meta SET fence = NEW.fence + NEW.fences - 1;
END;
CREATE TRIGGER lockwright_takeover AFTER UPDATE OF fence ON lockwright_lease BEGIN
    UPDATE lockwright_meta SET fence = NEW.fence + NEW.fences - 1;
END;

-- Tokens that are never granted again: of abandoned acquires, and of broken or transferred holds.
CREATE TABLE lockwright_tombstone (
    token    TEXT    NOT NULL PRIMARY KEY,
    until_ns INTEGER NOT NULL,
    boot     TEXT    NOT NULL,
    broken   TEXT
) STRICT, WITHOUT ROWID;

-- Readers, holders of permits, and writers that wait for readers.
--
-- While a name has readers or permit holders, its row in lockwright_lease has the token `readers`
-- or `semaphore of N`, and their latest expiry.
--
-- A row with the mode `exclusive` records a waiting writer, who keeps new readers out until
-- the row expires or a grant changes the name's fence.
CREATE TABLE lockwright_shared_holder (
    name       TEXT    NOT NULL COLLATE BINARY,
    token      TEXT    NOT NULL,
    identity   TEXT    NOT NULL,
    mode       TEXT    NOT NULL,
    -- The permits and the size that the holder gave, or 0 for readers and writers.
    permits    INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    -- For the name's readers, their common fence. For a permit holder, a unique number. For a
    -- waiting writer, the fence of the readers before it.
    fence      INTEGER NOT NULL,
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    granted_ns INTEGER NOT NULL,
    broken     TEXT,
    PRIMARY KEY (name, token)
) STRICT, WITHOUT ROWID;

-- The first fence is the wall clock in microseconds. So a recreated file most likely continues
-- above the old fences.
INSERT INTO lockwright_meta (id, version, fence)
VALUES (1, 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));

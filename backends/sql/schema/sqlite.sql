-- Lockwright's tables in a SQLite file. The file may also contain other tables.
--
-- A column that ends in _ns has nanoseconds of CLOCK_BOOTTIME, which restarts at each boot. So a
-- row with another boot id has expired.

-- One row. `fence` is the highest fence ever granted for any name, so a name never gets the same
-- fence twice, even if its row is deleted.
CREATE TABLE lockwright_meta (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,
    -- At most 2^53 - 1, because other backends compare fences as doubles.
    fence   INTEGER NOT NULL CHECK (fence BETWEEN 0 AND 9007199254740991)
) STRICT;

-- One row for each name that is held, or was held until the hold expired.
CREATE TABLE lockwright_lease (
    name       TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
    token      TEXT    NOT NULL,
    -- JSON for operators: host, pid, label.
    identity   TEXT    NOT NULL,
    mode       TEXT    NOT NULL,
    -- Each grant reserves `fences` fences, and `fence` is the first of them.
    fence      INTEGER NOT NULL,
    fences     INTEGER NOT NULL CHECK (fences >= 1),
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    -- The wall clock at the last grant or renewal, for operators.
    updated    TEXT    NOT NULL,
    -- The operator who broke the hold, and the reason. A broken hold isn't renewed.
    broken     TEXT
) STRICT, WITHOUT ROWID;

-- The triggers record the highest fence. A trigger is part of the statement that grants, so both
-- take effect or neither does.
CREATE TRIGGER lockwright_grant AFTER INSERT ON lockwright_lease BEGIN
    UPDATE lockwright_meta SET fence = NEW.fence + NEW.fences - 1;
END;
CREATE TRIGGER lockwright_takeover AFTER UPDATE OF fence ON lockwright_lease BEGIN
    UPDATE lockwright_meta SET fence = NEW.fence + NEW.fences - 1;
END;

-- Tokens that are never granted again, because their acquire was abandoned, or their hold was
-- broken or transferred.
CREATE TABLE lockwright_tombstone (
    token    TEXT    NOT NULL PRIMARY KEY,
    until_ns INTEGER NOT NULL,
    boot     TEXT    NOT NULL,
    broken   TEXT
) STRICT, WITHOUT ROWID;

-- The first fence is the wall clock in microseconds. So the fences of a deleted and recreated file
-- are most likely above the old ones, but nothing relies on that.
INSERT INTO lockwright_meta (id, version, fence)
VALUES (1, 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));

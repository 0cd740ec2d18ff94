-- Lockwright's tables in a SQLite file. Other tables may be in the same file.
--
-- Times in _ns are nanoseconds of CLOCK_BOOTTIME. A row of another boot id has expired.

-- One row. `fence` is the highest fence ever granted, so a name whose row is deleted never gets a fence
-- twice.
CREATE TABLE lockwright_meta (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,
    -- At most 2^53 - 1, as other backends compare doubles.
    fence   INTEGER NOT NULL CHECK (fence BETWEEN 0 AND 9007199254740991)
) STRICT;

-- One row for each name that is held, or was until it expired.
CREATE TABLE lockwright_lease (
    -- Compared byte by byte.
    name       TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
    token      TEXT    NOT NULL,
    -- JSON, for people: host, pid, label.
    identity   TEXT    NOT NULL,
    mode       TEXT    NOT NULL,
    -- The first of the reserved fences, and their number.
    fence      INTEGER NOT NULL,
    fences     INTEGER NOT NULL CHECK (fences >= 1),
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    -- The wall clock at the last grant or renewal, for people.
    updated    TEXT    NOT NULL,
    -- Who broke the hold, and why. A broken hold isn't renewed.
    broken     TEXT
) STRICT, WITHOUT ROWID;

-- A trigger runs in the grant's statement, so no crash separates the two.
CREATE TRIGGER lockwright_grant AFTER INSERT ON lockwright_lease BEGIN
    UPDATE lockwright_meta SET fence = NEW.fence + NEW.fences - 1;
END;
CREATE TRIGGER lockwright_takeover AFTER UPDATE OF fence ON lockwright_lease BEGIN
    UPDATE lockwright_meta SET fence = NEW.fence + NEW.fences - 1;
END;

-- Tokens that are never granted again: released during an acquire, or broken at once.
CREATE TABLE lockwright_tombstone (
    token    TEXT    NOT NULL PRIMARY KEY,
    until_ns INTEGER NOT NULL,
    boot     TEXT    NOT NULL,
    broken   TEXT
) STRICT, WITHOUT ROWID;

-- The first fence is the wall clock in microseconds: most likely a recreated file continues above the old
-- fences. Nothing relies on that.
INSERT INTO lockwright_meta (id, version, fence)
VALUES (1, 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));

-- Lockwright's tables in a SQLite file. They may share a file with other tables.
--
-- Times ending in _ns are nanoseconds of CLOCK_BOOTTIME, valid only with their boot id: a row of another boot
-- has expired.

-- One row. `fence` is the highest fence ever granted, over all names. So a lease row can be deleted at once,
-- and its name still never gets a fence twice.
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
    -- The first fence and how many were reserved.
    fence      INTEGER NOT NULL,
    fences     INTEGER NOT NULL CHECK (fences >= 1),
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    -- The time of the last grant or renewal by the wall clock, for people.
    updated    TEXT    NOT NULL,
    -- Who broke it and why. A broken hold can't be renewed and expires.
    broken     TEXT
) STRICT, WITHOUT ROWID;

-- The counter changes in the same statement as the grant, so no crash can separate them.
CREATE TRIGGER lockwright_grant AFTER INSERT ON lockwright_lease BEGIN
    UPDATE lockwright_meta SET fence = NEW.fence + NEW.fences - 1;
END;
CREATE TRIGGER lockwright_takeover AFTER UPDATE OF fence ON lockwright_lease BEGIN
    UPDATE lockwright_meta SET fence = NEW.fence + NEW.fences - 1;
END;

-- Tokens that must not be granted any more: released during an acquire, or broken at once.
CREATE TABLE lockwright_tombstone (
    token    TEXT    NOT NULL PRIMARY KEY,
    until_ns INTEGER NOT NULL,
    boot     TEXT    NOT NULL,
    broken   TEXT
) STRICT, WITHOUT ROWID;

-- The first fence is the wall clock in microseconds, so that a recreated file most likely continues above the
-- old fences. Nothing relies on that.
INSERT INTO lockwright_meta (id, version, fence)
VALUES (1, 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));

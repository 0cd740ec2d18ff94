
-- Shared holders: readers, or the holders of permits. The row of their name in lockwright_lease has the token
-- `readers` or `semaphore of N`. Its fence is the shared one of the readers or the number of the last permit,
-- and it expires with the last holder. So an exclusive claim needs no look at this table.
--
-- A writer that waits for readers also has a row, with the mode `exclusive`. Until it expires, or the fence
-- has changed, new readers are rejected.
CREATE TABLE IF NOT EXISTS lockwright_beside (
    name       TEXT    NOT NULL COLLATE BINARY,
    token      TEXT    NOT NULL,
    -- JSON, for people: host, pid, label.
    identity   TEXT    NOT NULL,
    mode       TEXT    NOT NULL,
    -- The permits that it holds, of `size`. Both are 0 for other modes.
    permits    INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    -- The shared fence of the readers, the number of a permit, or the fence of the readers that a writer
    -- waits for.
    fence      INTEGER NOT NULL,
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    -- By the wall clock, for people only.
    updated    TEXT    NOT NULL,
    -- Who broke it and why. A broken hold can't be renewed and expires.
    broken     TEXT,
    PRIMARY KEY (name, token)
) STRICT, WITHOUT ROWID;


-- Shared holders: readers, or the holders of permits. Their name's row in lockwright_lease has the token
-- `readers` or `semaphore of N`. Its fence is the readers' shared one or the last permit's number, and it
-- expires with the last holder. So an exclusive claim doesn't read this table.
--
-- A writer that waits for readers also has a row, with the mode `exclusive`. Until it expires or the fence
-- changes, new readers are rejected.
CREATE TABLE IF NOT EXISTS lockwright_beside (
    name       TEXT    NOT NULL COLLATE BINARY,
    token      TEXT    NOT NULL,
    identity   TEXT    NOT NULL,
    mode       TEXT    NOT NULL,
    -- The permits that it holds, of `size`. Both are 0 for other modes.
    permits    INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    -- The readers' shared fence, the permit's number, or the fence of the readers that a writer waits for.
    fence      INTEGER NOT NULL,
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    updated    TEXT    NOT NULL,
    broken     TEXT,
    PRIMARY KEY (name, token)
) STRICT, WITHOUT ROWID;

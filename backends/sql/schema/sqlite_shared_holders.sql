
-- Readers, holders of permits, and writers that wait for readers.
--
-- The name's row in lockwright_lease summarizes the holders. Its token is `readers` or `semaphore
-- of N`, its fence is that of the readers or of the last permit, and it expires with the last
-- holder.
--
-- A row with the mode `exclusive` is a waiting writer. New readers are rejected until that row
-- expires or the name's fence changes.
CREATE TABLE IF NOT EXISTS lockwright_shared_holder (
    name       TEXT    NOT NULL COLLATE BINARY,
    token      TEXT    NOT NULL,
    identity   TEXT    NOT NULL,
    mode       TEXT    NOT NULL,
    -- The number of permits and the semaphore's size. Both are 0 for readers and writers.
    permits    INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    -- The fence of the readers, the number of the first permit, or the fence of the readers that a
    -- writer waits for.
    fence      INTEGER NOT NULL,
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    updated    TEXT    NOT NULL,
    broken     TEXT,
    PRIMARY KEY (name, token)
) STRICT, WITHOUT ROWID;

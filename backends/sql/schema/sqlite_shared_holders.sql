
-- Readers, holders of permits, and writers that wait for readers.
--
-- While a name has readers or permit holders, its row in lockwright_lease has the token `readers`
-- or `semaphore of N`, and their latest expiry.
--
-- A row with the mode `exclusive` records a waiting writer. It keeps new readers out until it
-- expires or a grant changes the name's fence.
CREATE TABLE IF NOT EXISTS lockwright_shared_holder (
    name       TEXT    NOT NULL COLLATE BINARY,
    token      TEXT    NOT NULL,
    identity   TEXT    NOT NULL,
    mode       TEXT    NOT NULL,
    -- The permits and the semaphore's size, or 0 for readers and writers.
    permits    INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    -- The fence that a name's readers share, a permit holder's unique number, or the fence of the
    -- readers for which a writer waits.
    fence      INTEGER NOT NULL,
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    updated    TEXT    NOT NULL,
    broken     TEXT,
    PRIMARY KEY (name, token)
) STRICT, WITHOUT ROWID;

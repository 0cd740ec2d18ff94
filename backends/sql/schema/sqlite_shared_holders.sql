
-- Readers and holders of permits. Their name's row in lockwright_lease has the token `readers` or
-- `semaphore of N`, the fence of the readers or of the last permit, and the expiry of the last holder.
--
-- A row with the mode `exclusive` is a writer that waits for readers. Until it expires or the fence
-- changes, new readers are rejected.
CREATE TABLE IF NOT EXISTS lockwright_shared_holder (
    name       TEXT    NOT NULL COLLATE BINARY,
    token      TEXT    NOT NULL,
    identity   TEXT    NOT NULL,
    mode       TEXT    NOT NULL,
    -- Permits and semaphore size, or 0 for other modes.
    permits    INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    -- The fence, the permit's number, or the fence of the readers that a writer waits for.
    fence      INTEGER NOT NULL,
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    updated    TEXT    NOT NULL,
    broken     TEXT,
    PRIMARY KEY (name, token)
) STRICT, WITHOUT ROWID;

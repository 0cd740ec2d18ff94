
-- Those who hold a name beside each other: readers, or the holders of permits. Their name's row in
-- lockwright_lease says so: its token is `readers` or `semaphore of N`, its fence is the one that the
-- readers share or the last permit's number, and it runs out with the last of them. So a claim that
-- wants the name for itself has nothing to look for here.
--
-- A writer that waits for readers has a row too, with the mode `exclusive`. Until it expires, or the
-- fence has moved on, no new reader is let in.
CREATE TABLE IF NOT EXISTS lockwright_beside (
    name       TEXT    NOT NULL COLLATE BINARY,
    token      TEXT    NOT NULL,
    -- JSON, for people: host, pid, label.
    identity   TEXT    NOT NULL,
    mode       TEXT    NOT NULL,
    -- How many it has of how many there are; 0 but for permits.
    permits    INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    -- The fence that readers share, a permit's number, or that of those whom a writer waits for.
    fence      INTEGER NOT NULL,
    ttl_ns     INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    boot       TEXT    NOT NULL,
    -- By the wall clock, for people only.
    updated    TEXT    NOT NULL,
    -- Who broke it and why. A broken hold can't be renewed and runs out.
    broken     TEXT,
    PRIMARY KEY (name, token)
) STRICT, WITHOUT ROWID;

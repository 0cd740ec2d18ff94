-- The table of `check_fence`. It is in the same file as the data that the fences protect.

-- The highest fence that has written under each name. A row may be deleted when no holder from
-- before `updated` can write any more.
CREATE TABLE IF NOT EXISTS lockwright_fence (
    name    TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
    fence   INTEGER NOT NULL,
    updated TEXT    NOT NULL
) STRICT, WITHOUT ROWID

-- The table of `check_fence`, next to the protected data.

-- The highest fence used for a write. A row may be deleted once no holder from before `updated` can write.
CREATE TABLE IF NOT EXISTS lockwright_fence (
    name    TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
    fence   INTEGER NOT NULL,
    updated TEXT    NOT NULL
) STRICT, WITHOUT ROWID

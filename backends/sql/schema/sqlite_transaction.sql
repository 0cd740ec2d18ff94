-- The table of `check_fence`, in the file of the protected data.

-- The highest fence used for a write, by name. A row may be deleted once no holder from before `updated` can
-- write any more.
CREATE TABLE IF NOT EXISTS lockwright_fence (
    name    TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
    fence   INTEGER NOT NULL,
    updated TEXT    NOT NULL
) STRICT, WITHOUT ROWID

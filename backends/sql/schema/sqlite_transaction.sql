-- The table of `check_fence`, for the transactions of an application, in the file of the protected data.

-- The highest fence that was used for a write, for each name. A row may be deleted once no holder from before
-- `updated` can write any more.
CREATE TABLE IF NOT EXISTS lockwright_fence (
    name    TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
    fence   INTEGER NOT NULL,
    -- UTC.
    updated TEXT    NOT NULL
) STRICT, WITHOUT ROWID

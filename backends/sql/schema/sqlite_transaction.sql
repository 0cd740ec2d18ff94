-- The table of `check_fence`, in the file with the protected data.

-- For each name, the highest fence that `check_fence` has accepted. A row may be deleted once all
-- holders from before `updated` have ended their writes.
CREATE TABLE IF NOT EXISTS lockwright_fence (
    name    TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
    fence   INTEGER NOT NULL,
    updated TEXT    NOT NULL
) STRICT, WITHOUT ROWID

-- What `check_fence` compares with, in the transactions of an application: in its own file, beside what
-- its locks protect.

-- The highest fence that was written with, for each name. A row may be deleted once nobody can come
-- back any more who held the name before `updated`.
CREATE TABLE IF NOT EXISTS lockwright_fence (
    name    TEXT    NOT NULL COLLATE BINARY PRIMARY KEY,
    fence   INTEGER NOT NULL,
    -- UTC.
    updated TEXT    NOT NULL
) STRICT, WITHOUT ROWID

-- What `check_fence` compares with, in the transactions of an application.

-- The highest fence that was written with, for each name. A row may be deleted once nobody can come
-- back any more who held the name before `updated`.
CREATE TABLE IF NOT EXISTS {fence} (
    -- Compared byte by byte.
    name    text COLLATE "C" NOT NULL PRIMARY KEY,
    fence   bigint NOT NULL,
    updated timestamptz NOT NULL
    -- Room for the next version of a row beside it, so that no index is written.
) WITH (fillfactor = 50);

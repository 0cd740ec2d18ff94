-- The highest fence that has written under each name. A row may be deleted when no holder from
-- before `updated` can write any more.
CREATE TABLE IF NOT EXISTS {fence} (
    name    text COLLATE "C" NOT NULL PRIMARY KEY,
    fence   bigint NOT NULL,
    updated timestamptz NOT NULL
    -- The free half of each page takes new row versions, so updates don't write to an index.
) WITH (fillfactor = 50);

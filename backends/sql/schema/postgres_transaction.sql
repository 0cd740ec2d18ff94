-- The highest fence used for a write. A row may be deleted once no holder from before `updated` can write.
CREATE TABLE IF NOT EXISTS {fence} (
    name    text COLLATE "C" NOT NULL PRIMARY KEY,
    fence   bigint NOT NULL,
    updated timestamptz NOT NULL
    -- Space for the next row version on the page, so that no index is written.
) WITH (fillfactor = 50);

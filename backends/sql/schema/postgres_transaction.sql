-- The highest fence used for a write, by name. A row may be deleted once no holder from before `updated` can
-- write any more.
CREATE TABLE IF NOT EXISTS {fence} (
    name    text COLLATE "C" NOT NULL PRIMARY KEY,
    fence   bigint NOT NULL,
    updated timestamptz NOT NULL
    -- Space for the next version of a row on its page, so that no index is written.
) WITH (fillfactor = 50);

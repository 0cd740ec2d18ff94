-- For each name, the highest fence that `check_fence` has accepted. A row may be deleted once all
-- holders from before `updated` have ended their writes.
CREATE TABLE IF NOT EXISTS {fence} (
    name    text COLLATE "C" NOT NULL PRIMARY KEY,
    fence   bigint NOT NULL,
    updated timestamptz NOT NULL
) WITH (fillfactor = 50);

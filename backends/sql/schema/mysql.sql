-- Lockwright's tables on MySQL or MariaDB. They may stand beside an application's own tables.
--
-- Times are the server's SYSDATE(6) as microseconds since 1970. A user who locks needs SELECT,
-- INSERT, UPDATE and DELETE on all of them, and nothing else. Names are compared byte by byte: with
-- the usual collations `Orders` and `orders` would be one lock.

-- One row for each name that is held, or was.
CREATE TABLE IF NOT EXISTS {lease} (
    name     VARCHAR(512) NOT NULL PRIMARY KEY,
    -- NULL when it was released. The row stays for the sake of its fence.
    token    VARCHAR(32),
    -- JSON, for people: host, pid, label.
    identity TEXT NOT NULL,
    mode     VARCHAR(16) NOT NULL,
    -- The first fence and how many were reserved. At most 2^53 - 1: other backends' fences are
    -- compared as doubles, so all of them end there.
    fence    BIGINT NOT NULL,
    fences   INT NOT NULL,
    ttl      BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    -- When it was granted, renewed or released.
    updated  BIGINT NOT NULL,
    -- Who broke it and why. A broken hold can't be renewed and runs out.
    broken   TEXT,
    -- The tokens that were last buried under this name. A claim that is under way while its token
    -- is buried doesn't see the tombstone, but it sees the row.
    buried   VARCHAR(600) NOT NULL,
    -- What the last acquire came to: 2 a new hold, 1 its own hold again, 0 nothing. Only that
    -- statement looks at it: the rest of it goes by what was decided first.
    decided  TINYINT NOT NULL,
    CONSTRAINT {prefix}_lease_fences CHECK (fences >= 1),
    CONSTRAINT {prefix}_lease_fence CHECK (fence >= 0 AND fence + fences <= 9007199254740992)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Tokens that must not be granted any more: released while an acquire of theirs was unanswered, or
-- broken at once.
CREATE TABLE IF NOT EXISTS {tombstone} (
    token    VARCHAR(32) NOT NULL PRIMARY KEY,
    until_us BIGINT NOT NULL,
    broken   TEXT,
    KEY {prefix}_tombstone_until (until_us)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Those who hold a name beside each other: readers, or the holders of permits. Their name's row above says
-- so: its token is `readers` or `semaphore of N`, its fence is the one that the readers share or the last
-- permit's number, and it runs out with the last of them. So a claim that wants the name for itself has
-- nothing to look for here. Whoever changes rows here has locked the name's row before.
--
-- A writer that waits for readers has a row too, with the mode `exclusive`. Until it expires, or the fence
-- has moved on, no new reader is let in.
CREATE TABLE IF NOT EXISTS {beside} (
    name     VARCHAR(512) NOT NULL,
    token    VARCHAR(32) NOT NULL,
    -- JSON, for people: host, pid, label.
    identity TEXT NOT NULL,
    mode     VARCHAR(16) NOT NULL,
    -- How many it has of how many there are; 0 but for permits.
    permits  BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    -- The fence that readers share, a permit's number, or that of those whom a writer waits for.
    fence    BIGINT NOT NULL,
    ttl      BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    updated  BIGINT NOT NULL,
    -- Who broke it and why. A broken hold can't be renewed and runs out.
    broken   TEXT,
    PRIMARY KEY (name, token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row, made last. Every name that has no row of its own starts above the floor, so a row may go
-- once the floor is at its last fence.
CREATE TABLE IF NOT EXISTS {meta} (
    id      INT NOT NULL PRIMARY KEY,
    version INT NOT NULL,
    floor   BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

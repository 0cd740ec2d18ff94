-- Takes no locks, unlike a SELECT in SET.
SELECT JSON_ARRAYAGG(old.name) INTO @lockwright FROM (
    SELECT name FROM {swept} WHERE {age} < UTC_TIMESTAMP() - INTERVAL :idle_s SECOND LIMIT :limit
) AS old;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
BEGIN;
SELECT JSON_ARRAYAGG(locked.name) INTO @lockwright
FROM JSON_TABLE(COALESCE(@lockwright, '[]'), '$[*]' COLUMNS (
         name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$')) AS old
STRAIGHT_JOIN {swept} AS locked
    ON locked.name = CONVERT(old.name USING utf8mb4) COLLATE utf8mb4_bin
WHERE locked.{age} < UTC_TIMESTAMP() - INTERVAL :idle_s SECOND FOR UPDATE SKIP LOCKED;
DELETE locked
FROM JSON_TABLE(COALESCE(@lockwright, '[]'), '$[*]' COLUMNS (
         name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$')) AS old
STRAIGHT_JOIN {swept} AS locked
    ON locked.name = CONVERT(old.name USING utf8mb4) COLLATE utf8mb4_bin;
SET @lockwright = ROW_COUNT();
COMMIT AND NO CHAIN NO RELEASE;
SELECT CAST(@lockwright AS SIGNED);

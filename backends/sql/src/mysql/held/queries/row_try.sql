-- Returns the name if its row was locked, with a fence on MariaDB, and in the last row whether the
-- mark was acquired.
SET @lockwright_mark = GET_LOCK({mark}, 0);
BEGIN;
SELECT name /*M!100300 , NEXTVAL({hold_fence}) */ FROM {row}
WHERE name = :name AND @lockwright_mark = 1 FOR UPDATE SKIP LOCKED;
SELECT @lockwright_mark <=> 1;

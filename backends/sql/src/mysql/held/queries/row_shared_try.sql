-- A reader is rejected while a writer waits. Only one session can have the mark, so only one reads
-- for a claim.
SET @lockwright_mark = GET_LOCK({mark}, 0);
SET @lockwright_open = IS_USED_LOCK({waits}) IS NULL;
BEGIN;
SELECT name /*M!100300 , NEXTVAL({hold_fence}) */ FROM {row}
WHERE name = :name AND @lockwright_mark = 1 AND @lockwright_open
/*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */ SKIP LOCKED;
SELECT @lockwright_mark <=> 1;

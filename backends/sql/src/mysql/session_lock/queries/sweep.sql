/* sweep */
-- Rows with fences above the current time stay: an acquire that read the old floor may get the
-- current time as its fence.
DELETE FROM {reader}
WHERE kind = '{kind}' AND updated < {now} - :idle_us AND IS_USED_LOCK({mark_of_reader}) IS NULL
LIMIT :limit;
SET @lockwright_gone = ROW_COUNT();

SET @lockwright_old = (
    SELECT JSON_ARRAYAGG(old.name)
    FROM (SELECT held.name FROM {hold} AS held
          WHERE held.kind = '{kind}' AND held.updated < {now} - :idle_us AND held.fence < {now}
            AND IS_USED_LOCK({mark_of_held}) IS NULL
            AND NOT EXISTS (SELECT 1 FROM {reader} AS reader
                            WHERE reader.kind = '{kind}' AND reader.name = held.name)
          LIMIT :limit) AS old);

SELECT MAX(held.fence) INTO @lockwright_floor
FROM {old} STRAIGHT_JOIN {hold} AS held ON held.kind = '{kind}' AND held.name = {old_name}
WHERE held.updated < {now} - :idle_us AND held.fence < {now};

UPDATE {meta} SET floor = @lockwright_floor WHERE floor < @lockwright_floor;

DELETE held FROM {old}
STRAIGHT_JOIN {hold} AS held ON held.kind = '{kind}' AND held.name = {old_name}
WHERE held.updated < {now} - :idle_us AND held.fence <= (SELECT floor FROM {meta})
  AND IS_USED_LOCK({mark_of_held}) IS NULL
  AND NOT EXISTS (SELECT 1 FROM {reader} AS reader
                  WHERE reader.kind = '{kind}' AND reader.name = held.name);

SET @lockwright_deleted = ROW_COUNT();

-- Rows of names that had only unrecorded holds. A SELECT in SET would wait for locked rows.
SELECT JSON_ARRAYAGG(free.name) INTO @lockwright_old
FROM (SELECT name FROM {row} AS free
      WHERE '{kind}' = 'row' AND NOT EXISTS (SELECT 1 FROM {hold} AS held
                                             WHERE held.kind = 'row' AND held.name = free.name)
      LIMIT :limit) AS free;

BEGIN;
SELECT JSON_ARRAYAGG(locked.name) INTO @lockwright_old
FROM {old} STRAIGHT_JOIN {row} AS locked ON locked.name = {old_name}
FOR UPDATE /*!80000 OF locked */ SKIP LOCKED;
DELETE locked FROM {old} STRAIGHT_JOIN {row} AS locked ON locked.name = {old_name};
SET @lockwright_deleted = GREATEST(@lockwright_deleted, ROW_COUNT());
COMMIT;

SELECT CAST(@lockwright_deleted + @lockwright_gone AS SIGNED);

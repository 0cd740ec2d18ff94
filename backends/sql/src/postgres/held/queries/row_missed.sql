-- Returns whether the row to lock exists, and whether the claim's token is recorded.
ROLLBACK;
SELECT EXISTS (SELECT FROM {row} WHERE name = :name),
       EXISTS (SELECT FROM {held}
               WHERE kind = 'row' AND name = :name AND token = :token);

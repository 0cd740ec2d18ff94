-- Returns whether the row to lock exists, and whether the record of a hold has the claim's token.
ROLLBACK;
SELECT EXISTS (SELECT FROM {row} WHERE name = :name),
       EXISTS (SELECT FROM {held}
               WHERE kind = 'row' AND name = :name AND token = :token);

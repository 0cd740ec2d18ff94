-- After a try in vain: whether there was something to lock, whether the row bears our token.
ROLLBACK;
SELECT EXISTS (SELECT FROM {row} WHERE name = :name),
       EXISTS (SELECT FROM {held}
               WHERE kind = 'row' AND name = :name AND token = :token);

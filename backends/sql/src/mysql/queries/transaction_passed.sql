-- After an unsuccessful wait: fails if the savepoint ended with its transaction. Without autocommit there is
-- always a new transaction.
RELEASE SAVEPOINT lockwright_probe;

-- Fails if the savepoint ended with its transaction. Without autocommit, a new transaction may have begun then.
RELEASE SAVEPOINT lockwright_probe;

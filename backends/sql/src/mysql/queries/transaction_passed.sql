-- Fails if the savepoint ended with its transaction. Without autocommit there is always a new one.
RELEASE SAVEPOINT lockwright_probe;

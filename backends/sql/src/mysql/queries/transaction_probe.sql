-- Outside a transaction the savepoint is gone with its own statement, and the second one fails.
SAVEPOINT lockwright_probe;
RELEASE SAVEPOINT lockwright_probe;

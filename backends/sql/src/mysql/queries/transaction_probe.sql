-- Outside a transaction the savepoint ends with its own statement, and the second statement fails.
SAVEPOINT lockwright_probe;
RELEASE SAVEPOINT lockwright_probe;

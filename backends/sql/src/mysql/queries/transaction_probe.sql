-- Outside a transaction the savepoint ends at once, and the second statement fails.
SAVEPOINT lockwright_probe;
RELEASE SAVEPOINT lockwright_probe;

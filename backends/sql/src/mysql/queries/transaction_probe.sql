-- Fails outside a transaction, where the savepoint ends at once.
SAVEPOINT lockwright_probe;
RELEASE SAVEPOINT lockwright_probe;

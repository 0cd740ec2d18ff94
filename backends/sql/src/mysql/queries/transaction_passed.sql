-- Fails if the savepoint has ended with its transaction. Without autocommit, the session may
-- already have a new transaction.
RELEASE SAVEPOINT lockwright_probe;

-- Fails if the savepoint has ended with its transaction. Without autocommit, the session may
-- already be in a new transaction.
RELEASE SAVEPOINT lockwright_probe;

-- After a wait in vain: fails if the savepoint from before went with its transaction. Without
-- autocommit there is always another one.
RELEASE SAVEPOINT lockwright_probe;

-- Takes the next fence as a semaphore holder's number. ?1 name
UPDATE lockwright_lease SET fence = (SELECT fence + 1 FROM lockwright_meta) WHERE name = ?1
RETURNING fence

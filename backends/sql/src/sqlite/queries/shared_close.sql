DELETE FROM lockwright_lease WHERE name = ?1 AND mode <> 'exclusive'

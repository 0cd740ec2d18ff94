-- Takes the next fence as the number of permits. ?1 name
UPDATE lockwright_lease SET fence = (SELECT fence + 1 FROM lockwright_meta) WHERE name = ?1
RETURNING fence

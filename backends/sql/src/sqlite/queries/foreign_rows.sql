-- How many rows no Lockwright of this version would have written.
SELECT count(*) FROM lockwright_lease
WHERE mode <> 'exclusive'
   OR length(token) <> 32 OR token GLOB '*[^0-9a-f]*'
   OR length(name) = 0
   OR fence < 1 OR expires_ns < 0
   OR NOT json_valid(identity)

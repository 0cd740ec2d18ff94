-- Counts rows that this version of Lockwright never writes.
SELECT (
    SELECT count(*) FROM lockwright_lease
    WHERE NOT CASE mode
            WHEN 'exclusive' THEN length(token) = 32 AND token NOT GLOB '*[^0-9a-f]*'
            WHEN 'shared' THEN token = 'readers'
            WHEN 'permits' THEN token GLOB 'semaphore of [1-9]*'
            ELSE false END
       OR length(name) = 0
       OR fence < 1 OR expires_ns < 0
       OR NOT json_valid(identity)
) + (
    SELECT count(*) FROM lockwright_shared_holder
    WHERE mode NOT IN ('exclusive', 'shared', 'permits')
       OR length(token) <> 32 OR token GLOB '*[^0-9a-f]*'
       OR permits < 0 OR permits > size
       OR length(name) = 0
       OR fence < 1 OR expires_ns < 0
       OR NOT json_valid(identity)
)

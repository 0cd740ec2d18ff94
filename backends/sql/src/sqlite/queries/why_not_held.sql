SELECT
    EXISTS (SELECT 1 FROM lockwright_lease
            WHERE name = ?1 AND token = ?2 AND broken IS NOT NULL)
        OR EXISTS (SELECT 1 FROM lockwright_shared_holder
                   WHERE name = ?1 AND token = ?2 AND broken IS NOT NULL)
        OR EXISTS (SELECT 1 FROM lockwright_tombstone
                   WHERE token = ?2 AND broken IS NOT NULL) AS broken,
    EXISTS (SELECT 1 FROM lockwright_lease WHERE name = ?1 AND token = ?2)
        OR EXISTS (SELECT 1 FROM lockwright_shared_holder WHERE name = ?1 AND token = ?2) AS ran_out

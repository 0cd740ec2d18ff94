-- Removes the token's row, of a hold (after `shared_lock`) or of a waiting writer. Notifies waiters
-- if one may now acquire the name. Returns whether the row was unexpired, whether a notification
-- was sent, and the remaining microseconds.
WITH at AS MATERIALIZED (
    SELECT {now} AS now
), gone AS (
    DELETE FROM {shared_holder} AS ended WHERE name = :name AND token = :token RETURNING ended.*
), others AS MATERIALIZED (
    SELECT max(expires) AS ends
    FROM {shared_holder} CROSS JOIN at
    WHERE name = :name AND token <> :token AND mode <> 'exclusive' AND expires > now
), kept AS (
    UPDATE {lease} AS lease SET
        token = CASE WHEN ends IS NOT NULL THEN lease.token END, expires = coalesce(ends, now),
        updated = now
    FROM at CROSS JOIN others CROSS JOIN gone
    WHERE lease.name = :name AND lease.mode = gone.mode AND gone.mode <> 'exclusive'
      AND lease.token IS NOT NULL
), told AS MATERIALIZED (
    SELECT gone.expires > now AS held, gone.expires - now AS remaining,
           gone.expires > now AND lease.waiting > now
               AND (gone.mode <> 'shared' OR ends IS NULL) AS makes_room
    FROM gone CROSS JOIN at CROSS JOIN others
    LEFT JOIN {lease} AS lease ON lease.name = :name
)
SELECT coalesce(held, false),
       CASE WHEN makes_room THEN pg_notify(:channel, :name)::text END,
       remaining
FROM at LEFT JOIN told ON true;

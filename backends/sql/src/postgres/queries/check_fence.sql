INSERT INTO {fence} AS seen (name, fence, updated) VALUES (:name, :fence, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET
    updated = CASE WHEN seen.fence <= EXCLUDED.fence THEN EXCLUDED.updated ELSE seen.updated END,
    fence = greatest(seen.fence, EXCLUDED.fence)
RETURNING seen.fence

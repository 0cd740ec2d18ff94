INSERT INTO lockwright_fence (name, fence, updated) VALUES (?1, ?2, datetime('now', 'subsec'))
ON CONFLICT (name) DO UPDATE SET
    updated = iif(fence <= excluded.fence, excluded.updated, updated),
    fence = max(fence, excluded.fence)
RETURNING fence

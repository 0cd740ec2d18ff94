-- Returns the server's time if the sequence of fences is lower, and otherwise 0. Raising the sequence
-- to the time covers fences that a crash lost.
SELECT CAST(0 /*M!100300 + (next_not_cached_value < {now}) * {now} */ AS SIGNED)
/*M!100300 FROM {hold_fence} */;

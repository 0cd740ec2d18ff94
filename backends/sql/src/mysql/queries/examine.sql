-- Returns whether the clock is constant during a statement, and now.
SELECT SYSDATE(6) = NOW(6), {now}
FROM (SELECT SLEEP(0.002) AS slept) AS later;

-- Returns whether SYSDATE is constant during a statement, and the server's time.
SELECT SYSDATE(6) = NOW(6), {now}
FROM (SELECT SLEEP(0.002) AS slept) AS later;

UPDATE {lease} SET broken = COALESCE(broken, :broken)
WHERE name = :name AND token = :token AND expires > {now};

SELECT expires - {now} FROM {lease}
WHERE name = :name AND token = :token AND expires > {now} AND broken IS NOT NULL;

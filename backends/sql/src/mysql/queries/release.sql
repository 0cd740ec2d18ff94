UPDATE {lease} SET token = NULL, updated = {now}
WHERE name = :name AND token = :token AND expires > {now}

SET SESSION wait_timeout = IF(IS_USED_LOCK(:key) <=> CONNECTION_ID(), :ttl_s, 60);

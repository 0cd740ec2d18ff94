SET SESSION wait_timeout = :ttl_s;

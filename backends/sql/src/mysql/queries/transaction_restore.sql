SET @lockwright = NULL /*!80000 , SESSION innodb_lock_wait_timeout = @lockwright_limit */;

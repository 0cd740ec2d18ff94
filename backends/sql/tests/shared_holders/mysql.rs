mod leases;
mod sessions;

use crate::support::mysql as server;

const WAITING: &str = "SELECT count(*) FROM information_schema.processlist \
                       WHERE user = 'lockwright' AND command = 'Query' \
                         AND (info LIKE 'UPDATE `lockwright_shared_holder`%' \
                              OR info LIKE 'INSERT INTO `lockwright_lease`%')";

sessions::tests_in!(row);

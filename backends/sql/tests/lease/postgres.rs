#[path = "connecting.rs"]
mod connecting;
mod database;
mod doctor;
#[path = "faults.rs"]
mod faults;
mod grants;
mod pooler;
#[path = "programs_pool.rs"]
mod programs_pool;
mod programs_pool_of_postgres;
#[path = "rules.rs"]
mod rules;
#[path = "schema.rs"]
mod schema;
#[path = "sweeping.rs"]
mod sweeping;
mod waking;

use lockwright_core::ErrorKind;

use crate::support::postgres as server;

const SESSION_MODE: lockwright_sql::postgres::Mode = lockwright_sql::postgres::Mode::Session;

const SESSION_STATE: &str = "SELECT concat_ws(' ', pg_backend_pid(), \
                             current_setting('lock_timeout'), \
                             current_setting('statement_timeout'), \
                             (SELECT count(*) FROM pg_prepared_statements), \
                             (SELECT count(*) FROM pg_listening_channels()))";

fn missing_databases(url: &str) -> Vec<(String, ErrorKind)> {
    vec![(format!("{url}?dbname=nothere"), ErrorKind::InvalidConfig)]
}

const CHANGE_PASSWORD: &str = "ALTER ROLE lockwright PASSWORD 'changed'";

/// SQL that sets and returns a session's limit, and the limit.
const SETTING: [&str; 3] = ["SET lock_timeout = '7s'", "SHOW lock_timeout", "7s"];

const SHORT_LIMIT: [&str; 2] = [
    "ALTER ROLE lockwright SET statement_timeout = '200ms'",
    "ALTER ROLE lockwright RESET statement_timeout",
];

const READ_ONLY: [&str; 2] = [
    "ALTER DATABASE lockwright SET default_transaction_read_only = on",
    "BEGIN READ WRITE; ALTER DATABASE lockwright RESET default_transaction_read_only; COMMIT",
];

const SETTINGS: [&str; 2] = [
    "ALTER ROLE lockwright SET standard_conforming_strings = on",
    "ALTER ROLE lockwright SET standard_conforming_strings = off",
];

const REVOKE_DELETE: &str = "REVOKE DELETE ON lockwright_lease FROM lockwright";

const CREATE_SCHEMA: &str = "CREATE SCHEMA \"select\" AUTHORIZATION lockwright";
const QUOTED_SCHEMA: &str = "\"select\"";

const NO_SCHEMA: (ErrorKind, &str) = (ErrorKind::InvalidConfig, "schema");

const UNTIL: &str = "until";

fn insert_names(count: usize) -> String {
    format!(
        "INSERT INTO lockwright_lease SELECT 'orders/' || md5(i::text), NULL, '{{}}', \
         'exclusive', 1700000000000000 + (i::bigint * 7919) % 1000003, 1 + i % 3, 1, 1, 1, NULL, 0, '' \
         FROM generate_series(1, {count}) AS i"
    )
}

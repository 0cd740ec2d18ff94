#[path = "connecting.rs"]
mod connecting;
mod database;
mod doctor;
#[path = "faults.rs"]
mod faults;
mod grants;
#[path = "programs_pool.rs"]
mod programs_pool;
mod programs_pool_of_mysql;
mod proxysql;
#[path = "rules.rs"]
mod rules;
#[path = "schema.rs"]
mod schema;
#[path = "sweeping.rs"]
mod sweeping;

use lockwright_core::ErrorKind;

use crate::support::mysql as server;

const SESSION_MODE: lockwright_sql::mysql::Mode = lockwright_sql::mysql::Mode::Session;

const SESSION_STATE: &str = "SELECT CONCAT(CONNECTION_ID(), ' ', \
                             GROUP_CONCAT(variable_name, '=', variable_value SEPARATOR ' ')) \
                             FROM information_schema.session_variables WHERE variable_name NOT IN \
                             ('rand_seed1', 'rand_seed2', 'timestamp') LIMIT 1";

fn missing_databases(url: &str) -> Vec<(String, ErrorKind)> {
    let url = url.trim_end_matches("/lockwright");
    vec![(url.to_owned(), ErrorKind::InvalidConfig), (format!("{url}/nothere"), ErrorKind::Denied)]
}

const CHANGE_PASSWORD: &str = "ALTER USER lockwright@'%' IDENTIFIED BY 'changed'";

/// SQL that sets and returns a session's limit, and the limit.
const SETTING: [&str; 3] =
    ["SET lock_wait_timeout = 7", "SELECT CAST(@@lock_wait_timeout AS CHAR)", "7"];

/// SQL that begins and ends a short time limit for statements.
const SHORT_LIMIT: [&str; 2] =
    ["SET GLOBAL max_statement_time = 0.2", "SET GLOBAL max_statement_time = 0"];

const READ_ONLY: [&str; 2] = ["SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"];

/// Settings that change how the server reads literals.
const SETTINGS: [&str; 3] = [
    "SET GLOBAL sql_mode = ''",
    "SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT'",
    "SET GLOBAL sql_mode = 'ORACLE'",
];

const REVOKE_DELETE: &str = "REVOKE DELETE ON lockwright.* FROM lockwright@'%'";

const CREATE_SCHEMA: &str = "CREATE DATABASE `select`; GRANT ALL ON `select`.* TO lockwright@'%'";
const QUOTED_SCHEMA: &str = "`select`";

/// The error for a missing schema, which the server doesn't distinguish from a forbidden one.
const NO_SCHEMA: (ErrorKind, &str) = (ErrorKind::Denied, "");

/// The column with a tombstone's expiry.
const UNTIL: &str = "until_us";

fn insert_names(count: usize) -> String {
    format!(
        "INSERT INTO lockwright_lease SELECT concat('orders/', lpad(seq, 9, '0')), NULL, '{{}}', \
         'exclusive', 1700000000000000 + (seq * 7919) % 1000003, 1 + seq % 3, 1, 1, 1, \
         NULL, '', 0 FROM seq_1_to_{count}"
    )
}

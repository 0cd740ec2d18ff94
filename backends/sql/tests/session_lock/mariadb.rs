mod faults;
#[path = "mariadb/ghosts.rs"]
mod ghosts;
mod interop;
mod operator;
mod processes;
#[path = "mariadb/sessions.rs"]
mod sessions;
mod waiting;

use std::time::Duration;

use lockwright_core::ErrorKind;

use super::mysql::SHORT_TTL;
use crate::support::{MODES, ms, mysql as server};

const SHARED_MODES: [&str; 1] = ["row"];

const DEAD_SESSION: &[ErrorKind] = &[ErrorKind::Unavailable, ErrorKind::Indeterminate];

/// SQL for a lock that blocks writes of a holder's row, but no reads.
const OTHER_LOCKS: [&str; 1] = ["BEGIN; SELECT * FROM lockwright_hold WHERE name = 'x' FOR UPDATE"];

/// SQL that lists the clients' sessions. Idle clients have only sessions kept for later claims.
const IDLE: &str = "SELECT id FROM information_schema.processlist WHERE user = 'lockwright'";

/// SQL for a lock on the records' table that allows reads.
const NO_RECORDS: &str = "LOCK TABLES lockwright_hold READ";

/// Does nothing: `note` checks the session even without a next holder's record.
const NEXT_RECORD: &str = "DO 0";

/// The modes in which another session records the hold, after the grant.
const MODES_WITH_LATE_RECORD: [&str; 2] = MODES;

const FOR_SHARE: &str = "LOCK IN SHARE MODE";

/// During a `GET_LOCK`, the server checks whether its client is connected. A wait for a row ends
/// only with the statement's time limit.
fn dead_waiter_limit(mode: &str) -> Duration {
    if mode == "session" { ms(3_000) } else { ms(6_000) }
}

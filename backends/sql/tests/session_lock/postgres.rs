mod breaking;
#[path = "postgres/claims.rs"]
mod claims;
mod client_end;
mod faults;
mod interop;
mod joint_session;
mod limit;
mod operator;
#[path = "postgres/pooler.rs"]
mod pooler;
mod processes;
mod renewing;
#[path = "postgres/sessions.rs"]
mod sessions;
#[path = "postgres/sharing.rs"]
mod sharing;
#[path = "postgres/stuck.rs"]
mod stuck;
mod waiting;

use std::time::Duration;

use lockwright_core::ErrorKind;

use crate::support::{MODES, ms, postgres as server};

const SHARED_MODES: [&str; 2] = MODES;

/// The shortest TTL that the server ends reliably in these tests.
const SHORT_TTL: Duration = ms(1_500);

const DEAD_SESSION: &[ErrorKind] = &[ErrorKind::Unavailable];

const OTHER_LOCKS: [&str; 2] = [
    "BEGIN; LOCK TABLE lockwright_hold IN SHARE MODE",
    "BEGIN; SELECT FROM lockwright_hold WHERE name = 'x' FOR UPDATE",
];

const IDLE: &str = "SELECT pid FROM pg_stat_activity WHERE application_name = 'lockwright/own'";

const NO_RECORDS: &str = "BEGIN; LOCK TABLE lockwright_hold IN SHARE MODE";

/// Simulates the next holder's record, whose higher fence rejects an earlier holder's late record.
const NEXT_RECORD: &str = "UPDATE lockwright_hold SET token = 'next', fence = fence + 1000000000";

/// The modes in which tests can delay a hold's record.
const MODES_WITH_LATE_RECORD: [&str; 1] = ["row"];

const FOR_SHARE: &str = "FOR SHARE";

/// The limit is short, because the sessions' `client_connection_check_interval` is a second.
fn dead_waiter_limit(_mode: &str) -> Duration {
    ms(3_000)
}

const LOCK_FENCES: &str = "BEGIN; ALTER SEQUENCE lockwright_hold_fence CACHE 1";

fn kill_joint_sessions(server: &server::Server) {
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                WHERE application_name = 'lockwright/joint'";
    server.sql(kill).unwrap();
}

#[path = "breaking.rs"]
mod breaking;
#[path = "closing.rs"]
mod closing;
#[path = "exclusion.rs"]
mod exclusion;
#[path = "faults.rs"]
mod faults;
#[path = "interop.rs"]
mod interop;
#[path = "limit.rs"]
mod limit;
#[path = "operator.rs"]
mod operator;
mod pooler;
#[path = "processes.rs"]
mod processes;
#[path = "renewing.rs"]
mod renewing;
#[path = "runtime.rs"]
mod runtime;
mod sessions;
mod sharing;
#[path = "silence.rs"]
mod silence;
mod stuck;
#[path = "waiting.rs"]
mod waiting;

use std::time::Duration;

use lockwright_core::ErrorKind;

use crate::support::{MODES, ms, postgres as server};

const SHARED_MODES: [&str; 2] = MODES;

/// The shortest TTL that the server ends reliably in these tests.
const SHORT_TTL: Duration = ms(1_500);

const DEAD_SESSION: &[ErrorKind] = &[ErrorKind::Unavailable];

/// SQL for locks that block writes of a holder's row, but no reads. A write checks twice whether
/// its session lives: the first lock blocks before both checks, and the second between them.
const OTHER_LOCKS: [&str; 2] = [
    "BEGIN; LOCK TABLE lockwright_hold IN SHARE MODE",
    "BEGIN; SELECT FROM lockwright_hold WHERE name = 'x' FOR UPDATE",
];

const FOR_SHARE: &str = "FOR SHARE";

/// The time within which a killed waiter leaves the queue. It is shorter than a statement of the
/// wait, because the server checks its clients once a second.
fn dead_waiter_limit(_mode: &str) -> Duration {
    ms(3_000)
}

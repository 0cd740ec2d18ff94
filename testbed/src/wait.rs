//! Waiting for a thing itself, with a limit.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server may take to answer, to stop, or to let go of its port. Long, because machines
/// that run tests are slow at times; nobody waits for it unless something is wrong.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Asks until the answer is there; `None` when it isn't after `limit`.
pub fn until<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

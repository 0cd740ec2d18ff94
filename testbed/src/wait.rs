use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit for servers. Only failures reach it.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The limit for a server's answer, short because a frozen server never answers.
pub(crate) const SOON: Duration = Duration::from_millis(500);

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

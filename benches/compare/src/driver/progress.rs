use std::io::{IsTerminal, Write, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Progress {
    begun: Instant,
    planned: f64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    done: f64,
    last_line: Option<Instant>,
}

const EACH: Duration = Duration::from_secs(30);

impl Progress {
    pub(super) fn of(planned: f64) -> Self {
        Self { begun: Instant::now(), planned, state: Mutex::default() }
    }

    pub(super) fn done(&self, seconds: f64) {
        self.state().done += seconds;
    }

    pub(super) fn say(&self, what: &str) {
        let mut state = self.state();
        let terminal = stderr().is_terminal();
        if !terminal && state.last_line.is_some_and(|last| last.elapsed() < EACH) {
            return;
        }
        state.last_line = Some(Instant::now());
        let (gone, left) = (minutes(self.begun.elapsed()), minutes(self.left(state.done)));
        let line = format!("[{gone}, about {left} left] {what}");
        let _ = if terminal {
            write!(stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(stderr(), "{line}")
        };
    }

    pub(super) fn tell(&self, what: &str) {
        let start = if stderr().is_terminal() { "\r\x1b[K" } else { "" };
        let _ = writeln!(stderr(), "{start}{what}");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self, done: f64) -> Duration {
        let pace = if done > 5.0 { self.begun.elapsed().as_secs_f64() / done } else { 1.0 };
        Duration::from_secs_f64(((self.planned - done) * pace).max(0.0))
    }
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

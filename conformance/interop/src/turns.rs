use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::Peer;

/// One of two programs that share a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Lockwright.
    Ours,
    /// The other program.
    Theirs,
}

#[derive(Default)]
struct Turns {
    inside: Option<Side>,
    last: Option<Side>,
    changes: usize,
}

impl Turns {
    fn enter(&mut self, side: Side) {
        assert_eq!(self.inside, None, "when {side:?} acquires the lock");
        self.inside = Some(side);
        if self.last.replace(side).is_some_and(|last| last != side) {
            self.changes += 1;
        }
    }
}

/// Lets clients compete for a lock, until the holding side has changed often enough. Each client
/// has a command that acquires the lock and a command that releases it. It rests after a release.
///
/// # Panics
/// If a client acquires the lock while another client holds it.
pub fn take_turns(clients: impl IntoIterator<Item = (Side, Peer, [String; 2])>, rest: Duration) {
    const ENOUGH: usize = 10;
    const PAUSE: Duration = Duration::from_millis(20);
    let turns = &Mutex::new(Turns::default());
    thread::scope(|scope| {
        for (side, mut client, [acquire, release]) in clients {
            scope.spawn(move || {
                while turns.lock().unwrap().changes < ENOUGH {
                    assert_eq!(client.ask(&acquire), "yes");
                    turns.lock().unwrap().enter(side);
                    thread::sleep(PAUSE);
                    turns.lock().unwrap().inside = None;
                    assert_eq!(client.ask(&release), "released");
                    thread::sleep(rest);
                }
            });
        }
    });
}

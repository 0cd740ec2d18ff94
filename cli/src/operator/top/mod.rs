mod draw;
mod state;

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Instant;

use lockwright::Locks;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::poller::Poller;
use crate::run::ended_by;
use crate::run::signals::Signals;
use crate::{Failure, args};
use draw::draw;
use state::TopScreen;

pub(super) fn check(json: bool) -> Result<(), Failure> {
    if json || !io::stdout().is_terminal() {
        return Err(Failure::usage(
            "top writes only to a terminal, and no JSON; use `lockwright watch` for events, or \
             `lockwright list` for the held locks",
        ));
    }
    Ok(())
}

pub(super) async fn top(locks: &Locks, what: &args::PollOptions) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let _restore = Restore;
    let mut terminal = ratatui::try_init().map_err(broken_terminal)?;
    let mut events = events();
    let (mut poller, mut state) = (Poller::new(locks, what), TopScreen::default());
    loop {
        let mut polling = pin!(poller.next());
        loop {
            let drawn = terminal.draw(|frame| draw(frame, &mut state, Instant::now()));
            drawn.map_err(broken_terminal)?;
            tokio::select! {
                names = &mut polling => {
                    state.update(names?, Instant::now());
                    break;
                }
                Some(event) = events.recv() => {
                    if let Event::Key(key) = event.map_err(broken_terminal)?
                        && state.on_key(key)
                    {
                        return Ok(0);
                    }
                }
                signal = signals.next_ending() => return Ok(ended_by(signal)),
            }
        }
    }
}

/// Reads in a thread: `crossterm`'s asynchronous stream needs more crates.
fn events() -> UnboundedReceiver<io::Result<Event>> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || while sender.send(event::read()).is_ok() {});
    receiver
}

fn broken_terminal(error: io::Error) -> Failure {
    Failure::os("cannot use the terminal", error)
}

struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // Not `restore`, which panics if standard error is closed too.
        let _ = ratatui::try_restore();
    }
}

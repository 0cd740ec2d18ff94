use std::sync::{Arc, Mutex};

use lockwright_core::backend_util::lock;
use lockwright_core::{
    BootInstant, Fence, Guard, HoldState, Leadership, Mode, Permit, Reason, Result, Signal, Token,
};
use tokio::task::AbortHandle;

use crate::history::journal::{Event, Journal};

#[derive(Debug)]
pub(crate) enum Held {
    Guard(Guard),
    Permit(Permit),
    Leadership(Leadership),
}

macro_rules! each {
    ($held:expr, $guard:ident => $do:expr) => {
        match $held {
            Held::Guard($guard) => $do,
            Held::Permit($guard) => $do,
            Held::Leadership($guard) => $do,
        }
    };
}

impl Held {
    pub(crate) fn token(&self) -> Token {
        each!(self, guard => guard.token())
    }

    pub(crate) fn fence(&self) -> Fence {
        match self {
            Self::Guard(guard) => guard.fence(),
            Self::Leadership(leadership) => leadership.fence(),
            Self::Permit(permit) => Fence::new(permit.id()),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        each!(self, guard => guard.mode())
    }

    pub(crate) fn name(&self) -> &str {
        each!(self, guard => guard.name())
    }

    pub(crate) fn deadline(&self) -> BootInstant {
        each!(self, guard => guard.deadline())
    }

    pub(crate) fn signal(&self) -> Signal {
        each!(self, guard => guard.signal())
    }

    pub(crate) fn check(&self) -> Result<()> {
        each!(self, guard => guard.check())
    }

    pub(crate) async fn renew(&self) -> Result<()> {
        each!(self, guard => guard.renew().await)
    }

    async fn release(self) -> Result<()> {
        each!(self, guard => guard.release().await)
    }
}

#[derive(Debug)]
pub(crate) struct Holding {
    held: Held,
    record: Arc<Record>,
    watching: AbortHandle,
}

impl Holding {
    /// If `watches` is true, a task records a loss at the client's report.
    pub(crate) fn granted(held: Held, request: u64, journal: &Journal, watches: bool) -> Self {
        let (token, deadline) = (held.token(), held.deadline());
        journal.write(Event::Granted { request, token, fence: held.fence(), deadline });
        let state = Mutex::new(State { deadline, is_over: false });
        let record = Arc::new(Record { token, journal: journal.clone(), state });
        let signal = held.signal();
        let watched = Arc::clone(&record);
        let watching = tokio::spawn(async move {
            if watches {
                watch(signal, watched).await;
            }
        });
        let watching = watching.abort_handle();
        Self { held, record, watching }
    }

    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Records a new deadline or a loss. Returns whether the hold is valid.
    pub(crate) fn is_valid(&self) -> bool {
        let mut checked = self.held.check();
        if checked.is_ok() {
            self.record.renewed(self.held.deadline());
            // The process may have been stopped since.
            checked = self.held.check();
        }
        if let Err(error) = &checked {
            self.record.lost(error.lost_reason().unwrap_or(Reason::Gone));
        }
        checked.is_ok()
    }

    pub(crate) fn end(self) -> Held {
        self.record.ended(Event::Releasing { token: self.record.token });
        self.watching.abort();
        self.held
    }

    /// Records no end, because another guard shares the hold.
    pub(crate) fn forget(self) -> Held {
        self.watching.abort();
        self.held
    }

    pub(crate) fn release(self) -> impl Future<Output = Result<()>> {
        self.end().release()
    }
}

#[derive(Debug)]
struct Record {
    token: Token,
    journal: Journal,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    deadline: BootInstant,
    is_over: bool,
}

impl Record {
    fn renewed(&self, deadline: BootInstant) {
        let mut state = lock(&self.state);
        if !state.is_over && state.deadline != deadline {
            state.deadline = deadline;
            self.journal.write(Event::Renewed { token: self.token, deadline });
        }
    }

    fn ended(&self, event: Event) {
        let mut state = lock(&self.state);
        if !std::mem::replace(&mut state.is_over, true) {
            self.journal.write(event);
        }
    }

    fn lost(&self, reason: Reason) {
        self.ended(Event::Lost { token: self.token, reason });
    }
}

async fn watch(mut signal: Signal, record: Arc<Record>) {
    loop {
        match signal.changed().await {
            HoldState::Lost(reason) => return record.lost(reason),
            HoldState::Released => return,
            _ => record.renewed(signal.deadline()),
        }
    }
}

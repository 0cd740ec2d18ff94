//! The journal of a run: one line per event, with its time on the machine's boot clock. A process
//! appends each line with one `write(2)` before it acts on the event. So lines survive `kill -9`,
//! and processes can share a file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Clock, Fence, Mode, Reason, Token};
use serde::{Deserialize, Serialize};

/// A line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The time of writing.
    pub at: BootInstant,
    /// The process's name, or `runner`.
    pub process: String,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A request is about to be sent. Each name of a multi-lock, and each resumed ticket, is a
    /// separate request.
    Asked {
        /// Its number, unique in its process.
        request: u64,
        /// The lock's name.
        name: String,
        /// The requested mode.
        mode: Mode,
        /// True if the request waits from this entry on. False for a single attempt, and for a
        /// multi-lock's later name, which waits only after the earlier names' grants.
        waits: bool,
        /// The reentrancy owner, unique in its process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<u64>,
    },
    /// A grant has returned. If an owner gets a token twice, both guards share one hold.
    Granted {
        /// The request.
        request: u64,
        /// The token.
        token: Token,
        /// The fence.
        fence: Fence,
        /// The hold's deadline without renewals.
        deadline: BootInstant,
    },
    /// A request was dropped, or ended without a hold.
    Failed {
        /// The request.
        request: u64,
        /// The error.
        error: String,
    },
    /// A hold was renewed. The holder writes this before it relies on the new deadline.
    Renewed {
        /// The token.
        token: Token,
        /// The new deadline.
        deadline: BootInstant,
    },
    /// The last guard is about to release the hold or turn it into a ticket.
    Releasing {
        /// The token.
        token: Token,
    },
    /// The holder noticed the loss of its hold.
    Lost {
        /// The token.
        token: Token,
        /// The reason.
        reason: Reason,
    },
    /// The holder is about to write to the register. Without this optional event, the checker
    /// assumes that the write was sent right after the grant or the register's previous answer. The
    /// client must first read the clock for `looked`, call `check()`, and record a new deadline as
    /// [`Renewed`](Self::Renewed).
    Writing {
        /// The token.
        token: Token,
        /// The time just before the check.
        looked: BootInstant,
        /// True if the check found the hold ended.
        late: bool,
    },
    /// The register answered a write.
    Wrote {
        /// The token.
        token: Token,
        /// The fence.
        fence: Fence,
        /// True if the register accepted the write.
        accepted: bool,
        /// True if the write follows the recorded end of the hold.
        late: bool,
    },
    /// An operator is about to break a hold.
    Broke {
        /// Its number, unique in its process.
        #[serde(default)]
        number: u64,
        /// The lock's name.
        name: String,
        /// The hold's token; `None` for all holds of the lock.
        token: Option<Token>,
        /// True for an immediate break, false if it prevents renewals.
        at_once: bool,
    },
    /// A break was answered. An unanswered break may have freed the hold.
    BreakAnswered {
        /// The break.
        number: u64,
        /// False if the break changed nothing.
        broke: bool,
    },
    /// The busy machine ran no task of the process from `since` until this entry.
    Delayed {
        /// When tasks last ran on time.
        since: BootInstant,
    },
    /// The process has ended and holds nothing.
    Ended,
    /// A fault began or ended.
    Fault {
        /// The fault's name.
        fault: String,
        /// The affected process, server or request.
        target: String,
        /// True if the fault begins.
        begins: bool,
        /// The observed effect, such as refused requests.
        effect: Option<String>,
    },
    /// The runner signalled a process.
    Signalled {
        /// The process.
        target: String,
        /// The signal.
        signal: Signal,
    },
}

/// A signal to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// SIGSTOP, recorded after the process was suspended.
    Stopped,
    /// SIGCONT, recorded before the signal is sent.
    Continued,
    /// SIGKILL, recorded after the process has ended.
    Killed,
}

/// A writer of a journal. Clones share the journal.
#[derive(Debug, Clone)]
pub struct Journal {
    process: String,
    clock: Clock,
    to: Arc<Mutex<Target>>,
}

#[derive(Debug)]
enum Target {
    File(File),
    Stdout,
    Memory(Vec<Entry>),
}

impl Journal {
    /// Opens or creates a journal in a file.
    ///
    /// # Errors
    /// If the file can't be opened.
    pub fn append_to(path: &Path, process: &str) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::new(process, Clock::boot(), Target::File(file)))
    }

    /// Creates a journal in memory.
    pub fn in_memory(process: &str, clock: Clock) -> Self {
        Self::new(process, clock, Target::Memory(Vec::new()))
    }

    pub(crate) fn to_stdout(process: &str) -> Self {
        Self::new(process, Clock::boot(), Target::Stdout)
    }

    fn new(process: &str, clock: Clock, to: Target) -> Self {
        Self { process: process.to_owned(), clock, to: Arc::new(Mutex::new(to)) }
    }

    /// Returns a writer of the same journal for another process.
    pub fn of(&self, process: &str) -> Self {
        Self { process: process.to_owned(), ..self.clone() }
    }

    /// Writes an event.
    ///
    /// # Panics
    /// If the file can't be written.
    pub fn write(&self, event: Event) {
        let entry = Entry { at: self.clock.now(), process: self.process.clone(), event };
        let line = |entry| serde_json::to_string(entry).expect("an entry is valid JSON") + "\n";
        let written = match &mut *lock(&self.to) {
            Target::File(file) => file.write_all(line(&entry).as_bytes()),
            Target::Stdout => io::stdout().write_all(line(&entry).as_bytes()),
            Target::Memory(entries) => return entries.push(entry),
        };
        written.expect("the journal can be written");
    }

    /// Returns the entries of a journal in memory. Other journals return none.
    pub fn entries(&self) -> Vec<Entry> {
        match &*lock(&self.to) {
            Target::File(_) | Target::Stdout => Vec::new(),
            Target::Memory(entries) => entries.clone(),
        }
    }
}

/// Reads a journal, sorted by timestamp. Skips an incomplete last line of a killed process.
///
/// # Errors
/// If the file can't be read, or an earlier line isn't an entry.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let lines = BufReader::new(File::open(path)?).lines().collect::<io::Result<Vec<_>>>()?;
    let mut entries = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        match serde_json::from_str::<Entry>(line) {
            Ok(entry) => entries.push(entry),
            Err(_) if number + 1 == lines.len() => {}
            Err(error) => {
                let place = format!("{} line {}: {error}", path.display(), number + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidData, place));
            }
        }
    }
    entries.sort_by_key(|entry| entry.at);
    Ok(entries)
}

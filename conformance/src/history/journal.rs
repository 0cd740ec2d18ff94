//! The journal of a run: the events of each process, one line each.
//!
//! A process appends each line with one `write(2)` before it acts on the event. So the line survives `kill -9`,
//! and processes can share a file. All instants are of the machine's boot clock.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use lockwright_core::{BootInstant, Clock, Fence, Mode, Reason, Token};
use serde::{Deserialize, Serialize};

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The instant of writing.
    pub at: BootInstant,
    /// The name of the process, or `runner`.
    pub process: String,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A request is about to be sent. Each name of a multi-lock, and each resumption of a ticket, is a separate
    /// request.
    Asked {
        /// The request's number, unique in its process.
        request: u64,
        /// The name of the lock.
        name: String,
        /// The mode of the request.
        mode: Mode,
        /// True if the request waits. The later names of a multi-lock wait only after the earlier ones are held.
        waits: bool,
        /// The reentrancy key of the request, unique in its process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<u64>,
    },
    /// A granted request has returned. A second grant of a token to one owner is another guard (reentrancy).
    Granted {
        /// The request's number.
        request: u64,
        /// The hold.
        token: Token,
        /// Its fence.
        fence: Fence,
        /// The end of the hold unless it is renewed.
        deadline: BootInstant,
    },
    /// A request ended without a hold, or its future was dropped.
    Failed {
        /// The request's number.
        request: u64,
        /// The error, as text.
        error: String,
    },
    /// A hold was renewed. Written before the process uses the new deadline.
    Renewed {
        /// The hold.
        token: Token,
        /// Its new deadline.
        deadline: BootInstant,
    },
    /// The holder is about to release the hold or to turn it into a ticket. With several guards: the last one.
    Releasing {
        /// The hold.
        token: Token,
    },
    /// The holder noticed that its hold was lost.
    Lost {
        /// The hold.
        token: Token,
        /// The reason for the loss.
        reason: Reason,
    },
    /// The holder is about to write to the register. Without this optional event, the checker assumes the earliest
    /// possible instant: right after the grant or the register's previous answer.
    ///
    /// The client must take the instant `looked`, call `check()`, write a new deadline as
    /// [`Renewed`](Self::Renewed), and then write this event.
    Writing {
        /// The hold.
        token: Token,
        /// The instant just before the check of the hold.
        looked: BootInstant,
        /// True if the hold had ended.
        late: bool,
    },
    /// The register answered a write.
    Wrote {
        /// The hold.
        token: Token,
        /// Its fence.
        fence: Fence,
        /// True if the register accepted it.
        accepted: bool,
        /// True if the writer had noticed, and recorded, the end of its hold.
        late: bool,
    },
    /// An operator is about to break a hold.
    Broke {
        /// The break's number, unique in its process.
        #[serde(default)]
        number: u64,
        /// The name of the lock.
        name: String,
        /// The token, or `None` for all holds of the name.
        token: Option<Token>,
        /// True if the hold is freed at once and doesn't run out.
        at_once: bool,
    },
    /// A break was answered. Without this entry, it may have freed the hold: its process was killed, or the answer
    /// says nothing.
    BreakAnswered {
        /// The break's number.
        number: u64,
        /// False if nothing was changed.
        broke: bool,
    },
    /// The process ran no task since this instant, because the machine was busy. Written afterwards.
    Delayed {
        /// The last instant at which it ran tasks on time.
        since: BootInstant,
    },
    /// The process has ended its work and holds nothing.
    Ended,
    /// The runner began or ended a fault.
    Fault {
        /// The fault's name, as in `--faults`.
        fault: String,
        /// The affected process, server or request.
        target: String,
        /// True if the fault begins, false if it ends.
        begins: bool,
        /// The observed effect, if any, such as refused requests.
        effect: Option<String>,
    },
    /// The runner stopped, continued or killed a process.
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
    /// SIGSTOP. Written after the process has stopped.
    Stopped,
    /// SIGCONT. Written before the signal is sent.
    Continued,
    /// SIGKILL. Written after the process has ended.
    Killed,
}

/// A writer of a journal. Clones write to the same journal.
#[derive(Debug, Clone)]
pub struct Journal {
    process: String,
    clock: Clock,
    to: Arc<Mutex<Target>>,
}

#[derive(Debug)]
enum Target {
    File(File),
    Memory(Vec<Entry>),
}

impl Journal {
    /// Opens a journal in a file, and creates it if needed.
    ///
    /// # Errors
    /// If the file can't be opened for appending.
    pub fn append_to(path: &Path, process: &str) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::new(process, Clock::boot(), Target::File(file)))
    }

    /// Creates a journal in memory, for clients in one process.
    pub fn in_memory(process: &str, clock: Clock) -> Self {
        Self::new(process, clock, Target::Memory(Vec::new()))
    }

    fn new(process: &str, clock: Clock, to: Target) -> Self {
        Self { process: process.to_owned(), clock, to: Arc::new(Mutex::new(to)) }
    }

    /// Returns a writer of the same journal for another process.
    pub fn of(&self, process: &str) -> Self {
        Self { process: process.to_owned(), ..self.clone() }
    }

    /// Writes one line.
    ///
    /// # Panics
    /// If the file can't be written.
    pub fn write(&self, event: Event) {
        let entry = Entry { at: self.clock.now(), process: self.process.clone(), event };
        match &mut *self.to.lock().unwrap_or_else(PoisonError::into_inner) {
            Target::File(file) => {
                let mut line = serde_json::to_string(&entry).expect("an entry is valid JSON");
                line.push('\n');
                file.write_all(line.as_bytes()).expect("the journal can be written");
            }
            Target::Memory(entries) => entries.push(entry),
        }
    }

    /// Returns the entries of a journal in memory, or none for a file.
    pub fn entries(&self) -> Vec<Entry> {
        match &*self.to.lock().unwrap_or_else(PoisonError::into_inner) {
            Target::File(_) => Vec::new(),
            Target::Memory(entries) => entries.clone(),
        }
    }
}

/// Reads a journal and sorts it by timestamp. Skips a last line that `kill -9` cut off.
///
/// # Errors
/// If the file can't be read, or another line isn't an entry.
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

//! The journal of a run: the requests, grants, losses and other events of each process, one line each.
//!
//! A process appends each line with one `write(2)` before it acts on the event. So the line survives `kill -9`,
//! and several processes can share a file. All instants are of the boot clock, which the processes of one
//! machine share.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use lockwright_core::{BootInstant, Clock, Fence, Mode, Reason, Token};
use serde::{Deserialize, Serialize};

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The instant at which the entry was written.
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
    /// A request is about to be sent. Each name of a multi-lock counts as a separate request, and so does each
    /// resumption of a ticket.
    Asked {
        /// The number of the request, which is unique in its process.
        request: u64,
        /// The name of the lock.
        name: String,
        /// The mode of the request.
        mode: Mode,
        /// True if the request waits for the holder. False for the later names of a multi-lock, which wait only
        /// after the earlier names are held.
        waits: bool,
    },
    /// A granted request has returned. A second grant of the same token to the same process is another guard of
    /// that hold (reentrancy).
    Granted {
        /// The number of the request.
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
        /// The number of the request.
        request: u64,
        /// The error, as text.
        error: String,
    },
    /// A hold was renewed. The process writes this before it uses the new deadline.
    Renewed {
        /// The hold.
        token: Token,
        /// Its new deadline.
        deadline: BootInstant,
    },
    /// The holder is about to release the hold or to turn it into a ticket. If the hold has several guards, the
    /// process writes this before it releases the last guard.
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
    /// The holder is about to write to the register. This event is optional. Without it, the checker assumes
    /// that the holder may have checked its hold and sent the write right after the grant or the register's
    /// previous answer.
    ///
    /// The order for the client is: take the instant `looked`, call `check()`, write a new deadline as
    /// [`Renewed`](Self::Renewed), and then write this event.
    Writing {
        /// The hold.
        token: Token,
        /// The instant just before the holder checked its hold.
        looked: BootInstant,
        /// True if the holder found that its hold had ended.
        late: bool,
    },
    /// The register answered a write.
    Wrote {
        /// The hold.
        token: Token,
        /// Its fence.
        fence: Fence,
        /// True if the register accepted the write.
        accepted: bool,
        /// True if the writer had noticed the end of its hold. The journal then contains that end.
        late: bool,
    },
    /// An operator is about to break a hold.
    Broke {
        /// The name of the lock.
        name: String,
        /// The token of the hold, or `None` for all holds of the name.
        token: Option<Token>,
        /// True if the hold is freed at once, false if it runs out.
        at_once: bool,
    },
    /// The process has ended its work. It holds nothing after this.
    Ended,
    /// The runner began or ended a fault.
    Fault {
        /// The fault's name, as in `--faults`.
        fault: String,
        /// The affected process, server or request.
        target: String,
        /// True if the fault begins, false if it ends.
        begins: bool,
        /// The observed effect, such as refused requests. `None` if there was none.
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
    /// Opens a journal in a file, which is created if it is missing.
    ///
    /// # Errors
    /// If the file can't be opened for appending.
    pub fn append_to(path: &Path, process: &str) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::new(process, Clock::boot(), Target::File(file)))
    }

    /// Creates a journal in memory, for clients that share one process and `clock`.
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
    /// If the file can't be written. A run without its journal shows nothing.
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

    /// Returns the entries of a journal in memory. Returns none for a file.
    pub fn entries(&self) -> Vec<Entry> {
        match &*self.to.lock().unwrap_or_else(PoisonError::into_inner) {
            Target::File(_) => Vec::new(),
            Target::Memory(entries) => entries.clone(),
        }
    }
}

/// Reads a journal, and sorts its entries by their timestamps. Skips a last line that `kill -9` cut off.
///
/// # Errors
/// If the file can't be read, or if any other line isn't an entry.
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

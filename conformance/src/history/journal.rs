//! The journal of a run: what each process asked for, was granted and lost, one line each.
//!
//! A line is written with one `write(2)` to a file that is opened for appending, before the process acts on
//! what the line says. So it survives `kill -9`, and several processes can share a file. All instants are of
//! the boot clock, which the processes of one machine share.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use lockwright_core::{BootInstant, Clock, Fence, Mode, Reason, Token};
use serde::{Deserialize, Serialize};

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was written.
    pub at: BootInstant,
    /// The process, or `runner`.
    pub process: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A request is about to be sent. `request` is unique in its process. Each name of a multi-lock, and each
    /// resumption of a ticket, is a request of its own.
    Asked {
        /// The number of the request.
        request: u64,
        /// The lock.
        name: String,
        /// How it is locked.
        mode: Mode,
        /// Whether the request waits for the holder. False also for the later names of a multi-lock, which
        /// wait only once the earlier names are held.
        waits: bool,
    },
    /// A request was granted, and has returned. A second grant of a token to its process is another guard on
    /// the same hold (reentrancy).
    Granted {
        /// The number of the request.
        request: u64,
        /// The hold.
        token: Token,
        /// Its fence.
        fence: Fence,
        /// Until then it is valid unless it is renewed.
        deadline: BootInstant,
    },
    /// A request ended without a hold, or its future was dropped.
    Failed {
        /// The number of the request.
        request: u64,
        /// The error, as text.
        error: String,
    },
    /// A hold was renewed. Written before the new deadline is used.
    Renewed {
        /// The hold.
        token: Token,
        /// Its new deadline.
        deadline: BootInstant,
    },
    /// The holder is about to release, or to give the hold away by a ticket. With several guards on one hold,
    /// it is written before the last guard is released.
    Releasing {
        /// The hold.
        token: Token,
    },
    /// The holder learned that its hold was lost.
    Lost {
        /// The hold.
        token: Token,
        /// Why.
        reason: Reason,
    },
    /// The holder is about to write to the register. Optional: without it, the grant or the register's previous
    /// answer is the earliest time at which the holder can have checked its hold and sent the write.
    ///
    /// Take `looked`, then call `check()`, then write a new deadline as [`Renewed`](Self::Renewed), then this.
    Writing {
        /// The hold.
        token: Token,
        /// Just before the holder checked whether its hold is valid.
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
        /// Whether the register accepted it.
        accepted: bool,
        /// True if the writer had noticed the end of its hold. The journal has that end then.
        late: bool,
    },
    /// An operator is about to break a hold. Written before the request is sent.
    Broke {
        /// The lock.
        name: String,
        /// The hold, or `None` for all of the name.
        token: Option<Token>,
        /// Whether they were freed at once.
        at_once: bool,
    },
    /// The process ends its work; nothing of it is held after this.
    Ended,
    /// The runner began or ended a fault.
    Fault {
        /// Its name, as `--faults` takes it.
        fault: String,
        /// What it concerns: a process, a server.
        target: String,
        /// Whether it begins.
        begins: bool,
        /// What was observed of its effect: counted connections, a refused request. `None` without an effect.
        effect: Option<String>,
    },
    /// The runner stopped, continued or killed a process.
    Signalled {
        /// The process.
        target: String,
        /// Which signal.
        signal: Signal,
    },
}

/// A signal to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// SIGSTOP: written after the process has stopped.
    Stopped,
    /// SIGCONT: written before it is sent.
    Continued,
    /// SIGKILL: written after the process has ended.
    Killed,
}

/// Writes a journal. Clones share it.
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
    /// A journal in a file, which is created if it is missing.
    ///
    /// # Errors
    /// If the file can't be opened for appending.
    pub fn append_to(path: &Path, process: &str) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::new(process, Clock::boot(), Target::File(file)))
    }

    /// A journal in memory, for clients that share one process and `clock`.
    pub fn in_memory(process: &str, clock: Clock) -> Self {
        Self::new(process, clock, Target::Memory(Vec::new()))
    }

    fn new(process: &str, clock: Clock, to: Target) -> Self {
        Self { process: process.to_owned(), clock, to: Arc::new(Mutex::new(to)) }
    }

    /// The same journal for another process.
    pub fn of(&self, process: &str) -> Self {
        Self { process: process.to_owned(), ..self.clone() }
    }

    /// Writes one line.
    ///
    /// # Panics
    /// If the file can't be written: a run without its journal shows nothing.
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

    /// The entries of a journal in memory.
    pub fn entries(&self) -> Vec<Entry> {
        match &*self.to.lock().unwrap_or_else(PoisonError::into_inner) {
            Target::File(_) => Vec::new(),
            Target::Memory(entries) => entries.clone(),
        }
    }
}

/// Reads a journal in the order of its instants. A last line that `kill -9` cut off is left out.
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

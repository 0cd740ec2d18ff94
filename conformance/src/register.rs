//! Simulated resources that the locks protect.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use lockwright_core::Fence;
use lockwright_core::backend_util::lock;
use serde::{Deserialize, Serialize};

use crate::workload::Store;

/// One register per lock name, and one queue of tickets for all names. Clones share them. A
/// register rejects a fence below the highest accepted one (Kleppmann, "How to do distributed
/// locking", 2016).
#[derive(Debug, Clone, Default)]
pub struct Register(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    writes: HashMap<String, Writes>,
    tickets: VecDeque<String>,
}

/// A register's highest fence and counts of writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Writes {
    /// The highest accepted fence.
    pub highest: u64,
    /// Accepted writes.
    pub accepted: usize,
    /// Rejected writes.
    pub refused: usize,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    Write(String, Fence),
    Leave(String),
    Pick,
}

impl Register {
    /// Writes to the register of `name`. Returns whether it accepted the fence.
    pub fn write_to(&self, name: &str, fence: Fence) -> bool {
        let mut state = lock(&self.0);
        let writes = state.writes.entry(name.to_owned()).or_default();
        let fresh = fence.get() >= writes.highest;
        if fresh {
            writes.highest = fence.get();
            writes.accepted += 1;
        } else {
            writes.refused += 1;
        }
        fresh
    }

    /// Returns the counts of writes for `name`.
    pub fn counts(&self, name: &str) -> Writes {
        lock(&self.0).writes.get(name).copied().unwrap_or_default()
    }

    /// Serves the registers on the returned loopback port.
    pub fn serve(&self) -> std::io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let this = self.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let this = this.clone();
                thread::spawn(move || this.serve_one(client));
            }
        });
        Ok(address)
    }

    fn serve_one(&self, client: TcpStream) -> Option<()> {
        let mut answers = client.try_clone().ok()?;
        let mut requests = BufReader::new(client);
        let mut line = String::new();
        // A killed client leaves an incomplete line.
        while requests.read_line(&mut line).ok()? > 0 && line.ends_with('\n') {
            let answer = self.answer(&serde_json::from_str(&line).ok()?).ok()?;
            // A second packet would wait 40 ms for the first one's acknowledgement.
            answers.write_all(format!("{answer}\n").as_bytes()).ok()?;
            line.clear();
        }
        None
    }

    fn answer(&self, request: &Request) -> std::io::Result<String> {
        Ok(match request {
            Request::Write(name, fence) if self.write_to(name, *fence) => "accepted".to_owned(),
            Request::Write(..) => "refused".to_owned(),
            Request::Leave(ticket) => {
                self.leave(ticket)?;
                "kept".to_owned()
            }
            Request::Pick => self.pick()?.unwrap_or_default(),
        })
    }
}

impl Store for Register {
    fn write(&self, name: &str, fence: Fence) -> std::io::Result<bool> {
        Ok(self.write_to(name, fence))
    }

    fn leave(&self, ticket: &str) -> std::io::Result<()> {
        lock(&self.0).tickets.push_back(ticket.to_owned());
        Ok(())
    }

    fn pick(&self) -> std::io::Result<Option<String>> {
        Ok(lock(&self.0).tickets.pop_front())
    }
}

/// A number in a file. Concurrent increments lose updates.
#[derive(Debug)]
pub struct Counter(PathBuf);

impl Counter {
    /// Creates a temporary file. Dropping the counter removes it.
    pub fn create(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(name.replace('/', "-"));
        std::fs::write(&path, "0")?;
        Ok(Self(path))
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the number at `path`.
    pub fn read(path: &Path) -> std::io::Result<u64> {
        let text = std::fs::read_to_string(path)?;
        text.parse().map_err(|_| std::io::Error::other(format!("torn counter: {text:?}")))
    }

    /// Increments the number without a lock.
    pub fn add_one(path: &Path) -> std::io::Result<()> {
        let number = Self::read(path)?;
        thread::yield_now();
        std::fs::write(path, (number + 1).to_string())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

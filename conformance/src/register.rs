//! The ground truth: what the locks protect, kept apart from them.
//!
//! The [`Register`] refuses a write whose fence is below the highest that it has seen, as the
//! store behind a fenced lock should (Kleppmann, "How to do distributed locking", 2016). The
//! counter in a file knows nothing of fences: two who write at once lose an update.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use lockwright_core::Fence;

/// What refuses stale fences. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Register(Arc<Mutex<Writes>>);

/// What a register has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Writes {
    /// The highest fence.
    pub highest: u64,
    /// How many were accepted.
    pub accepted: usize,
    /// How many were refused.
    pub refused: usize,
}

impl Register {
    /// Writes with this fence; whether it was accepted.
    pub fn write(&self, fence: Fence) -> bool {
        let mut writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = fence.get() >= writes.highest;
        if fresh {
            writes.highest = fence.get();
            writes.accepted += 1;
        } else {
            writes.refused += 1;
        }
        fresh
    }

    /// What it has seen.
    pub fn writes(&self) -> Writes {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves it on a loopback port until the process ends, for other processes.
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
        for line in BufReader::new(client).lines() {
            let fence = line.ok()?.parse().ok()?;
            let answer = if self.write(Fence::new(fence)) { "accepted" } else { "refused" };
            writeln!(answers, "{answer}").ok()?;
        }
        None
    }
}

/// A register in another process.
#[derive(Debug)]
pub struct RemoteRegister {
    requests: TcpStream,
    answers: BufReader<TcpStream>,
}

impl RemoteRegister {
    /// Connects to one that is [served](Register::serve).
    pub fn connect(address: &str) -> std::io::Result<Self> {
        let requests = TcpStream::connect(address)?;
        requests.set_nodelay(true)?;
        Ok(Self { answers: BufReader::new(requests.try_clone()?), requests })
    }

    /// Writes with this fence; whether it was accepted.
    pub fn write(&mut self, fence: Fence) -> std::io::Result<bool> {
        writeln!(self.requests, "{fence}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer.trim() == "accepted")
    }
}

/// A number in a file, which each adds one to by reading and then writing.
#[derive(Debug)]
pub struct Counter(PathBuf);

impl Counter {
    /// A new one, in the system's folder for temporary files. It is removed when dropped.
    pub fn create(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(name.replace('/', "-"));
        std::fs::write(&path, "0")?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The number.
    pub fn read(path: &Path) -> std::io::Result<u64> {
        let text = std::fs::read_to_string(path)?;
        text.parse().map_err(|_| std::io::Error::other(format!("torn counter: {text:?}")))
    }

    /// Adds one, in two steps: safe for one at a time only.
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

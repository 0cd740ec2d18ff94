use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;

use lockwright_core::Fence;
use lockwright_core::backend_util::lock;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::register::Request;

/// A register per lock, and a queue of tickets. Calls may block, and fail if the store is
/// unreachable.
pub trait Store: Send + Sync + 'static {
    /// Writes to the register of `name`. Returns false if it has accepted a higher fence.
    fn write(&self, name: &str, fence: Fence) -> io::Result<bool>;

    /// Leaves a ticket, a single line, for another process.
    fn leave(&self, ticket: &str) -> io::Result<()>;

    /// Removes and returns the oldest ticket.
    fn pick(&self) -> io::Result<Option<String>>;
}

/// A client of a [served](crate::register::Register::serve) register.
#[derive(Debug)]
pub struct RemoteStore(Mutex<BufReader<TcpStream>>);

impl RemoteStore {
    /// Connects to a store.
    pub fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self(Mutex::new(BufReader::new(stream))))
    }

    /// Calls the register, and blocks until the answer. A multi-threaded runtime moves its other
    /// tasks to another thread.
    fn ask(&self, request: &Request) -> io::Result<String> {
        let ask = || {
            let mut connection = lock(&self.0);
            let mut line = serde_json::to_string(request).expect("a request is valid JSON");
            line.push('\n');
            connection.get_mut().write_all(line.as_bytes())?;
            line.clear();
            match connection.read_line(&mut line)? {
                0 => Err(io::Error::other("the register's process has ended")),
                _ => Ok(line.trim_end().to_owned()),
            }
        };
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(ask),
            _ => ask(),
        }
    }
}

impl Store for RemoteStore {
    fn write(&self, name: &str, fence: Fence) -> io::Result<bool> {
        Ok(self.ask(&Request::Write(name.to_owned(), fence))? == "accepted")
    }

    fn leave(&self, ticket: &str) -> io::Result<()> {
        self.ask(&Request::Leave(ticket.to_owned())).map(drop)
    }

    fn pick(&self) -> io::Result<Option<String>> {
        let ticket = self.ask(&Request::Pick)?;
        Ok(Some(ticket).filter(|ticket| !ticket.is_empty()))
    }
}

//! A network between the members of an ensemble.
//!
//! Members connect to each other through proxies, called doors. A [`Link`] has the connections from
//! one member to a port of another. A cut link delivers its data once healed, as TCP would.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::proxy::{Shared, Traffic};
use crate::{Error, Result, sockets, wait};

/// How long a door waits for its member to listen. ZooKeeper's members dial a new leader early, and
/// redial if refused. If a connection opens and closes, they elect another leader.
const LISTENS_SOON: Duration = Duration::from_secs(3);

pub(crate) type Greeting = fn(&mut TcpStream, usize) -> io::Result<Vec<u8>>;

#[derive(Debug)]
pub(crate) enum Dialler {
    /// The member with this index, the only user of the door.
    Is(usize, Greeting),
    HasTheOtherEnd,
}

#[derive(Debug, Default)]
pub(crate) struct Network(Arc<Shape>);

#[derive(Debug, Default)]
struct Shape {
    state: Mutex<State>,
    over: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    links: Vec<Link>,
    doors: Vec<SocketAddr>,
    isolated: Vec<usize>,
    processes: Vec<Arc<AtomicU32>>,
}

#[derive(Debug)]
struct Link {
    from: usize,
    to: usize,
    target: SocketAddr,
    connections: Arc<Shared>,
}

impl Network {
    /// The caller must store the member's process id in the result.
    pub(crate) fn add_member(&self) -> Arc<AtomicU32> {
        let process = Arc::new(AtomicU32::new(0));
        self.0.state().processes.push(Arc::clone(&process));
        process
    }

    pub(crate) fn open(
        &self,
        address: SocketAddr,
        dialler: Dialler,
        to: usize,
        target: SocketAddr,
    ) -> Result<()> {
        let failed = |error| Error::new(format!("no door at {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        self.0.state().doors.push(address);
        let shape = Arc::clone(&self.0);
        thread::spawn(move || shape.serve(&listener, &dialler, to, target));
        Ok(())
    }

    pub(crate) fn isolate(&self, member: usize) {
        let mut state = self.0.state();
        state.isolated.push(member);
        state.apply();
    }

    pub(crate) fn heal(&self, member: usize) {
        let mut state = self.0.state();
        state.isolated.retain(|isolated| *isolated != member);
        state.apply();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
        let doors = std::mem::take(&mut self.0.state().doors);
        for door in doors {
            // Wakes the thread blocked in `accept`.
            drop(TcpStream::connect(door));
        }
        for link in &self.0.state().links {
            link.connections.end();
        }
    }
}

impl State {
    fn apply(&self) {
        for link in &self.links {
            link.connections.set(self.traffic(link.from, link.to));
        }
    }

    fn traffic(&self, from: usize, to: usize) -> Traffic {
        let is_cut = self.isolated.iter().any(|isolated| [from, to].contains(isolated));
        if is_cut { Traffic::Hold } else { Traffic::Forward }
    }

    fn link(&mut self, from: usize, to: usize, target: SocketAddr) -> Arc<Shared> {
        let is_it = |link: &&Link| (link.from, link.to, link.target) == (from, to, target);
        if let Some(link) = self.links.iter().find(is_it) {
            return Arc::clone(&link.connections);
        }
        let connections = Shared::new(target);
        connections.set(self.traffic(from, to));
        self.links.push(Link { from, to, target, connections: Arc::clone(&connections) });
        connections
    }
}

impl Shape {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, listener: &TcpListener, dialler: &Dialler, to: usize, target: SocketAddr) {
        for client in listener.incoming() {
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let Ok(mut client) = client else { continue };
            match dialler {
                Dialler::Is(from, greeting) => {
                    let (from, greeting) = (*from, *greeting);
                    let link = self.state().link(from, to, target);
                    thread::spawn(move || {
                        if let Ok(said) = greeting(&mut client, from) {
                            link.serve(client, said, LISTENS_SOON);
                        }
                    });
                }
                Dialler::HasTheOtherEnd => {
                    if let Some(from) = self.owner(&client) {
                        let link = self.state().link(from, to, target);
                        link.serve(client, Vec::new(), Duration::ZERO);
                    }
                }
            }
        }
    }

    /// Polls: the member's process id may not be stored yet.
    fn owner(&self, connection: &TcpStream) -> Option<usize> {
        wait::until(Duration::from_secs(1), || {
            let socket = format!("socket:[{}]", sockets::number_of_other_end(connection)?);
            let processes = self.state().processes.clone();
            processes.iter().position(|pid| has_open(pid.load(Ordering::SeqCst), &socket))
        })
    }
}

fn has_open(pid: u32, file: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link == *file))
}

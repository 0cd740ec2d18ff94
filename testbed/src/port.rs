use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::{Result, folder};

/// All ports are below the kernel's range for outgoing connections, which could take the port of a
/// restarting server.
const FIRST: u16 = 15_000;
const COUNT: u16 = 15_000;

/// A process reserves blocks of this many ports until it ends, so that no other takes a restarting
/// server's port.
const BLOCK: u16 = 50;

const TRIES: usize = 5;

/// Returns a free loopback port that no other test process gets. Callers retry: another program may
/// take it.
pub fn free() -> u16 {
    static OURS: OnceLock<Mutex<Ports>> = OnceLock::new();
    let ours = OURS.get_or_init(|| {
        Mutex::new(Ports::locked_in(folder::cache().expect("there is a folder for locks")))
    });
    let mut ours = ours.lock().unwrap_or_else(PoisonError::into_inner);
    (0..COUNT)
        .map_while(|_| ours.next())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a loopback port is free")
}

pub(crate) fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

pub(crate) fn retried<T>(mut start: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match start() {
            Err(error) if error.0.to_lowercase().contains("already in use") => {}
            other => return other,
        }
    }
    start()
}

struct Ports {
    folder: PathBuf,
    blocks: Vec<Block>,
    given: usize,
}

struct Block {
    first: u16,
    _lock: File,
}

impl Ports {
    fn locked_in(folder: PathBuf) -> Self {
        Self { folder, blocks: Vec::new(), given: 0 }
    }

    fn next(&mut self) -> Option<u16> {
        let size = usize::from(BLOCK);
        if self.given == self.blocks.len() * size {
            match self.take_block() {
                Some(block) => self.blocks.push(block),
                None => self.given = 0,
            }
        }
        let block = self.blocks.get(self.given / size)?;
        let port = block.first + (self.given % size) as u16;
        self.given += 1;
        Some(port)
    }

    fn take_block(&self) -> Option<Block> {
        let is_ours = |first: &u16| self.blocks.iter().any(|block| block.first == *first);
        let all = (FIRST..FIRST + COUNT).step_by(usize::from(BLOCK));
        all.filter(|first| !is_ours(first)).find_map(|first| {
            let lock = File::create(self.folder.join(format!("ports-{first}"))).ok()?;
            lock.try_lock().ok()?;
            Some(Block { first, _lock: lock })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_port_is_tried_when_one_was_taken_and_nothing_else_is_tried_again() {
        let mut starts = 0;
        let mut fail = |message: &'static str, times| {
            starts = 0;
            let started = retried(|| {
                starts += 1;
                if starts > times { Ok(starts) } else { Err(crate::Error::new(message)) }
            });
            (started.is_ok(), starts)
        };
        assert_eq!(fail("bind: Address already in use", 2), (true, 3));
        assert_eq!(fail("listen: address already in use", 9), (false, TRIES));
        assert_eq!(fail("no such file", 2), (false, 1));
    }

    #[test]
    fn a_port_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let process = || Ports::locked_in(folder.path().to_path_buf());
        let some_of = |ports: &mut Ports| -> Vec<u16> {
            (0..BLOCK * 2).filter_map(|_| ports.next()).collect()
        };
        let (mut one, mut other) = (process(), process());
        let (of_one, of_other) = (some_of(&mut one), some_of(&mut other));
        assert_eq!((of_one.len(), of_other.len()), (100, 100));
        assert!(of_one.iter().all(|port| !of_other.contains(port)));
        drop(one);
        assert_eq!(some_of(&mut process()), of_one, "what an ended process had is free again");
    }
}

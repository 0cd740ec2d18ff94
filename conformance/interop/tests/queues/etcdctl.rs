use std::path::Path;
use std::process::Command;

use lockwright_interop::Peer;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/etcdctl_lock.py");

pub(crate) fn start(ttl: &str, servers: &str) -> Peer {
    let mut command = Command::new("python3");
    command.arg(Path::new(PROGRAM)).args([ttl, servers]);
    Peer::start(command)
}

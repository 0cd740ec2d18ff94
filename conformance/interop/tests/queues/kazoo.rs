use std::path::Path;

use lockwright_interop::{Peer, python};

const LIBRARY: (&str, &str) = ("kazoo", "2.11.0");

pub(crate) fn start(ttl: &str, servers: &str) -> Peer {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut command = python::program("kazoo_lock.py", LIBRARY, folder);
    command.args([ttl, servers]);
    Peer::start(command)
}

use std::path::Path;

use lockwright_interop::{Peer, python};

const LIBRARY: (&str, &str) = ("redis", "8.1.0");

pub(crate) fn start(ports: &[u16]) -> Peer {
    let mut command =
        python::program("redis_py.py", LIBRARY, Path::new(env!("CARGO_TARGET_TMPDIR")));
    command.args(ports.iter().map(u16::to_string));
    Peer::start(command)
}

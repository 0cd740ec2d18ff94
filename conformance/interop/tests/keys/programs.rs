use std::path::Path;
use std::process::Command;

use lockwright_interop::{Peer, programs};
use lockwright_testbed::go;

const REDIS_PY: (&str, &str) = ("redis", "8.1.0");
const REDSYNC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go/redsync");

pub(crate) fn redis_py(ports: &[u16]) -> Peer {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut command = programs::python("redis_py.py", REDIS_PY, folder);
    command.args(ports.iter().map(u16::to_string));
    Peer::start(command)
}

pub(crate) fn redsync(ports: &[u16]) -> Peer {
    let mut command = Command::new(go::build(Path::new(REDSYNC)).unwrap());
    command.args(ports.iter().map(|port| format!("127.0.0.1:{port}")));
    Peer::start(command)
}

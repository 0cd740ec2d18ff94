use std::path::Path;
use std::process::Command;

use lockwright_interop::Peer;
use lockwright_testbed::go;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go/redsync");

pub(crate) fn start(ports: &[u16]) -> Peer {
    let mut command = Command::new(go::build(Path::new(SOURCE)).unwrap());
    command.args(ports.iter().map(|port| format!("127.0.0.1:{port}")));
    Peer::start(command)
}

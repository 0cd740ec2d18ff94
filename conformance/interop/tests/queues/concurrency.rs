use std::path::Path;
use std::process::Command;

use lockwright_interop::Peer;
use lockwright_testbed::go;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go/concurrency");

pub(crate) fn start(ttl: &str, servers: &str) -> Peer {
    let mut command = Command::new(go::build(Path::new(SOURCE)).unwrap());
    command.args([ttl, servers]);
    Peer::start(command)
}

//! redsync, in Go: fetched and built once, and kept beside our own build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use lockwright_interop::Peer;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

pub(crate) fn start(ports: &[u16]) -> Peer {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(PROGRAM.get_or_init(built));
    command.args(ports.iter().map(|port| format!("127.0.0.1:{port}")));
    Peer::start(command)
}

/// Go looks itself whether there is anything to do.
fn built() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redsync");
    std::fs::create_dir_all(&place).unwrap();
    let fresh = place.join(format!("program-{}", std::process::id()));
    let output = Command::new("go")
        .current_dir(SOURCE)
        .args(["build", "-o"])
        .args([&fresh, Path::new(".")])
        // Writable, so that whoever may delete the target folder can.
        .env("GOFLAGS", "-mod=readonly -modcacherw -buildvcs=false")
        .env("GOMODCACHE", place.join("modules"))
        .env("GOCACHE", place.join("cache"))
        .env("GOWORK", "off")
        // The installed one or an error, not another one that it fetches.
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0")
        .output()
        .expect("go runs; on Debian it is in the package golang-go");
    assert!(
        output.status.success(),
        "go can't build {SOURCE}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    // In one step, so that nobody starts half of it.
    let program = place.join("program");
    std::fs::rename(fresh, &program).unwrap();
    program
}

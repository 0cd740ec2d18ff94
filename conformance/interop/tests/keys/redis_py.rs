//! redis-py, in Python: fetched once, and kept beside our own build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use lockwright_interop::Peer;

const VERSION: &str = "8.1.0";

pub(crate) fn start(ports: &[u16]) -> Peer {
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/redis_py.py"));
    command.args(ports.iter().map(u16::to_string)).env("PYTHONPATH", library());
    Peer::start(command)
}

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(fetched)
}

fn fetched() -> PathBuf {
    // What redis-py needs beside itself depends on it.
    let python_version =
        python("python3", &["-c", "import platform; print(platform.python_version())"]);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("redis-py-{VERSION}-python-{}", python_version.trim()));
    if !place.is_dir() {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (environment, fetched) = (folder.path().join("venv"), folder.path().join("library"));
        // Debian has no pip for everybody: the one of a virtual environment will do.
        python("python3", &["-m", "venv", path(&environment)]);
        python(
            path(&environment.join("bin/python")),
            &[
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--target",
                path(&fetched),
                &format!("redis=={VERSION}"),
            ],
        );
        // In one step, so that nobody finds half of it. Somebody else's is as good as this one.
        let renamed = std::fs::rename(&fetched, &place);
        assert!(renamed.is_ok() || place.is_dir(), "{renamed:?}");
    }
    place
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn python(binary: &str, arguments: &[&str]) -> String {
    let output = Command::new(binary)
        .args(arguments)
        .output()
        .expect("python3 runs; on Debian it is in the package python3");
    assert!(
        output.status.success(),
        "python can't fetch redis-py (on Debian the package python3-venv is needed too): {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

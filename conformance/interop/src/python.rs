//! Libraries of Python: fetched once by pip, and kept beside our own build.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Our program `script` of `python/`, which uses the library `name` of this version. That is fetched
/// into `folder` unless it is there: a place that lasts from one test to the next.
///
/// # Panics
/// If it can't be fetched.
pub fn program(script: &str, (name, version): (&str, &str), folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.arg(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/python")).join(script));
    command.env("PYTHONPATH", library(name, version, folder));
    command
}

fn library(name: &str, version: &str, folder: &Path) -> PathBuf {
    // What it needs beside itself depends on it.
    let python_version =
        python("python3", &["-c", "import platform; print(platform.python_version())"]);
    let place = folder.join(format!("{name}-{version}-python-{}", python_version.trim()));
    if !place.is_dir() {
        let folder = tempfile::tempdir_in(folder).unwrap();
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
                &format!("{name}=={version}"),
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
        "{binary} {arguments:?} fails (on Debian the package python3-venv is needed too): {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

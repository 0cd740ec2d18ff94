//! Python libraries, downloaded once by pip.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a command that runs `script` with a library. Installs the library in `folder` if
/// missing.
pub fn program(script: &str, (name, version): (&str, &str), folder: &Path) -> Command {
    let mut command = Command::new("python3");
    // Python mustn't write bytecode into the source folder.
    command.arg("-B").arg(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/python")).join(script));
    command.env("PYTHONPATH", library(name, version, folder));
    command
}

fn library(name: &str, version: &str, folder: &Path) -> PathBuf {
    // Each Python version gets its own copy, because dependencies may differ.
    let python_version =
        python("python3", &["-c", "import platform; print(platform.python_version())"]);
    let place = folder.join(format!("{name}-{version}-python-{}", python_version.trim()));
    if !place.is_dir() {
        let folder = tempfile::tempdir_in(folder).unwrap();
        let (environment, fetched) = (folder.path().join("venv"), folder.path().join("library"));
        // Debian has no global pip, but a virtual environment contains one.
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
        // If the rename fails, a concurrent test has made `place`.
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
        .expect("python3 is installed (on Debian: the package python3)");
    assert!(
        output.status.success(),
        "{binary} {arguments:?} failed (on Debian, the package python3-venv is required): {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

//! Programs and libraries that tests download or compile once.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns `parent/name`. If missing, moves it from a temporary folder, in which `make` creates it.
pub fn create_once(parent: &Path, name: &str, make: impl FnOnce(&Path) -> PathBuf) -> PathBuf {
    let place = parent.join(name);
    if !place.is_dir() {
        let temporary = tempfile::tempdir_in(parent).unwrap();
        // If the rename fails, a concurrent test has made `place`.
        let renamed = std::fs::rename(make(temporary.path()), &place);
        assert!(renamed.is_ok() || place.is_dir(), "{renamed:?}");
    }
    place
}

/// Returns a program's output. If the program fails, panics and names its Debian package.
pub fn output(command: &mut Command, package: &str) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?}: {error}; on Debian it is in the package {package}")
    });
    assert!(
        output.status.success(),
        "{command:?} failed (on Debian, the package {package} is required): {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a command that runs `script` with a Python library. Installs the library in `folder` if
/// missing.
pub fn python(script: &str, (name, version): (&str, &str), folder: &Path) -> Command {
    let run = |python: &Path, arguments: &[&str]| {
        output(Command::new(python).args(arguments), "python3-venv")
    };
    let system = Path::new("python3");
    // Each Python version gets its own copy, because dependencies may differ.
    let python_version = run(system, &["-c", "import platform; print(platform.python_version())"]);
    let place = format!("{name}-{version}-python-{}", python_version.trim());
    let library = create_once(folder, &place, |temporary| {
        // Debian has no global pip, but a virtual environment contains one.
        let (environment, fetched) = (temporary.join("venv"), temporary.join("library"));
        run(system, &["-m", "venv", environment.to_str().unwrap()]);
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let (library, target) = (format!("{name}=={version}"), fetched.to_str().unwrap());
        run(&environment.join("bin/python"), &[&pip[..], &["--target", target, &library]].concat());
        fetched
    });
    let mut command = Command::new("python3");
    // Python mustn't write bytecode into the source folder.
    command.arg("-B").arg(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/python")).join(script));
    command.env("PYTHONPATH", library);
    command
}

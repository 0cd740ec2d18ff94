//! Go builds a module, or the error has the reason.

use std::path::PathBuf;

use lockwright_testbed::go;
use tempfile::TempDir;

/// Creates a module with a fixed name, so that its builds replace each other.
fn module(name: &str, go: &str, program: &str) -> (TempDir, PathBuf) {
    let above = TempDir::new().unwrap();
    let folder = above.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("go.mod"), format!("module example\n\ngo {go}\n")).unwrap();
    std::fs::write(folder.join("main.go"), program).unwrap();
    (above, folder)
}

#[test]
fn a_program_is_built_once() {
    let (_above, folder) = module("small", "1.19", "package main\n\nfunc main() {}\n");
    let program = go::build(&folder).unwrap();
    assert!(std::process::Command::new(&program).status().unwrap().success());
    let built = || std::fs::metadata(&program).unwrap().modified().unwrap();
    let first = built();
    assert_eq!(go::build(&folder).unwrap(), program);
    assert_eq!(built(), first);
}

#[test]
fn a_toolchain_that_is_too_old_is_said() {
    let (_above, folder) = module("too-new", "9.99", "package main\n\nfunc main() {}\n");
    let error = go::build(&folder).unwrap_err().to_string();
    assert!(error.contains("needs Go 9.99 or newer; `go version go1."), "{error}");
}

#[test]
fn what_go_says_is_passed_on() {
    let (_above, folder) = module("wrong", "1.19", "package main\n\nfunc main() { wrong() }\n");
    let error = go::build(&folder).unwrap_err().to_string();
    assert!(error.contains("undefined: wrong"), "{error}");
}

//! Tests of the command line.

use std::process::{Command, Output};

fn xtask(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(args).output().unwrap()
}

#[test]
fn help_names_every_step() {
    let output = xtask(&["help"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for step in ["servers", "fmt", "clippy", "test", "doctest", "doc", "examples"] {
        assert!(text.contains(&format!("\n  {step} ")), "{step} is missing in:\n{text}");
    }
}

#[test]
fn an_unknown_word_is_named_and_changes_nothing() {
    for args in [
        &["tset"][..],
        &["test", "--quik"],
        &["test", "fmt", "clipy"],
        &["test", "--at-a-time", "0"],
        &[],
    ] {
        let output = xtask(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?} began to work");
        let complaint = String::from_utf8(output.stderr).unwrap();
        let word = args.last().unwrap_or(&"a task is missing");
        assert!(complaint.lines().next().unwrap().contains(word), "{complaint}");
        assert!(complaint.contains("Usage: cargo xtask"), "{complaint}");
    }
}

#[test]
fn last_line_has_the_counts() {
    let output = xtask(&["test", "tree"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap_or_default();
    assert_eq!(last, "0 passed, 0 failed (no tests; of the steps 1 passed)", "{text}");
}

use std::path::Path;

use lockwright_conformance::test_helpers::without_secret;
use lockwright_core::Finding;

use crate::support::*;

pub(crate) fn in_the_open(findings: &[Finding]) -> Option<&Finding> {
    findings.iter().find(|finding| finding.code == "connection-not-encrypted")
}

/// Asserts the kind and text of an error, which must show no secret.
pub(crate) fn assert_says<T: std::fmt::Debug>(
    answer: Result<T, Error>,
    kind: ErrorKind,
    says: &str,
    secrets: &[&str],
) {
    let mut error = refused(answer, kind, says);
    for secret in secrets.iter().chain(&["-----BEGIN"]) {
        error = without_secret(error, secret);
    }
}

pub(crate) fn body(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().nth(1).unwrap().to_owned()
}

pub(crate) fn escape(text: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.iter().map(escape).collect()
}

use std::path::Path;
use std::sync::Arc;

use crate::support::refused;
use lockwright_core::{DistributedLock, Error, ErrorKind, Finding, Locks};

pub(crate) fn in_the_open(findings: &[Finding]) -> Option<&Finding> {
    findings.iter().find(|finding| finding.code == "connection-not-encrypted")
}

pub(crate) async fn hold(backend: impl DistributedLock) {
    let locks = Locks::new(Arc::new(backend)).unwrap();
    let guard = locks.mutex("orders/42").acquire().await.unwrap();
    guard.release().await.unwrap();
    locks.close().await;
}

/// Asserts the kind and text of an error, which must show no secret.
pub(crate) fn assert_says<T: std::fmt::Debug>(
    answer: Result<T, Error>,
    kind: ErrorKind,
    says: &str,
    secrets: &[&str],
) {
    let error = refused(answer, kind, says);
    for shown in [error.to_string(), format!("{error:?}")] {
        for secret in secrets {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(!shown.contains("-----BEGIN"), "{shown}");
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

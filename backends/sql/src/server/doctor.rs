//! Findings that every server can have.

use lockwright_core::{Finding, Severity};

/// Reports an unencrypted connection. `fix` says how to encrypt it.
pub(crate) fn not_encrypted(fix: &str) -> Finding {
    let fix = if cfg!(feature = "tls") {
        fix.to_owned()
    } else {
        format!("{fix}; this build needs the feature `tls` for it")
    };
    Finding {
        severity: Severity::Warning,
        code: "connection-not-encrypted",
        what: "the connection leaves this machine, and is not encrypted".to_owned(),
        why: "who is on the way can read what is locked, and take or free locks in our place"
            .to_owned(),
        fix,
    }
}

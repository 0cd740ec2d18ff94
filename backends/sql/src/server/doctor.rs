//! What may be found on any server.

use lockwright_core::{Finding, Severity};

/// That a connection is in the open. `fix` says how the database is told otherwise.
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

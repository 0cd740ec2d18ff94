use lockwright_core::{Finding, Severity};

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
        why: "a network attacker can read, take or release locks".to_owned(),
        fix,
    }
}

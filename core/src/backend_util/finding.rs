//! Constructors of [`Finding`]s. Parameters: the code, problem, reason and remedy.

use crate::{Finding, Severity};

macro_rules! constructors {
    ($($name:ident: $severity:ident;)*) => {$(
        #[doc = concat!("Creates a finding of the severity `", stringify!($severity), "`.")]
        pub fn $name(
            code: &'static str,
            what: impl Into<String>,
            why: impl Into<String>,
            fix: impl Into<String>,
        ) -> Finding {
            let (what, why, fix) = (what.into(), why.into(), fix.into());
            Finding { severity: Severity::$severity, code, what, why, fix }
        }
    )*};
}

constructors! {
    error: Error;
    warning: Warning;
    note: Note;
}

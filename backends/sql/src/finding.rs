/// A [`Finding`](lockwright_core::Finding) of this severity and code.
macro_rules! finding {
    ($severity:ident, $code:literal; what: $what:expr, why: $why:expr, fix: $fix:expr) => {
        lockwright_core::Finding {
            severity: lockwright_core::Severity::$severity,
            code: $code,
            what: $what.into(),
            why: $why.into(),
            fix: $fix.into(),
        }
    };
}
pub(crate) use finding;

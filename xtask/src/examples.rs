//! The examples that the test command runs, and what they must print.

/// One run of an example of the facade.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    pub(crate) features: &'static str,
    pub(crate) args: &'static [&'static str],
    /// Must stand in its output, besides an exit code of 0.
    pub(crate) closing: &'static str,
    /// Left out by `--quick`.
    pub(crate) needs_server: bool,
}

pub(crate) const ALL: &[Example] = &[
    flash_sale("", &[], false),
    flash_sale("", &["--kill"], false),
    flash_sale("redis", &["--redis"], true),
    flash_sale("redis", &["--redis", "--kill"], true),
];

const fn flash_sale(
    features: &'static str,
    args: &'static [&'static str],
    needs_server: bool,
) -> Example {
    Example { name: "flash_sale", features, args, closing: "exactly 100 sold", needs_server }
}

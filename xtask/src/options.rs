use std::sync::{Mutex, OnceLock};

use crate::binaries::Binary;

#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) at_a_time: usize,
    pub(crate) tests_are_built: OnceLock<()>,
    /// Steps after `test` needn't wait for cargo.
    pub(crate) tests: OnceLock<Vec<Binary>>,
    /// Locked while the steps with `When::WithTests` run.
    pub(crate) background: Mutex<()>,
}

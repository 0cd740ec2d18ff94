use std::sync::{Mutex, OnceLock};

use crate::binaries::Binary;
use crate::parallel::Latch;

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) at_a_time: usize,
    pub(crate) tests_are_built: Latch,
    /// The binaries of the step `test`, so later steps needn't wait for cargo.
    pub(crate) tests: OnceLock<Vec<Binary>>,
    /// Locked while the steps with `When::WithTests` run.
    pub(crate) background: Mutex<()>,
}

impl Default for Options {
    fn default() -> Self {
        // Each binary runs several tests at once, so more than two binaries would hardly save time.
        Self {
            quick: false,
            at_a_time: 2,
            tests_are_built: Latch::default(),
            tests: OnceLock::new(),
            background: Mutex::default(),
        }
    }
}

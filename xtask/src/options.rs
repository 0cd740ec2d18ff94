use std::sync::{Mutex, OnceLock};

use crate::binaries::Binary;
use crate::parallel::Latch;

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) at_a_time: usize,
    pub(crate) tests_are_built: Latch,
    /// The binaries of the step `test`, so later steps needn't wait until cargo is free.
    pub(crate) tests: OnceLock<Vec<Binary>>,
    /// Locked while steps run in the background.
    pub(crate) background: Mutex<()>,
}

impl Default for Options {
    fn default() -> Self {
        // Each binary runs several tests at once, so more binaries would hardly save time.
        Self {
            quick: false,
            at_a_time: 2,
            tests_are_built: Latch::default(),
            tests: OnceLock::new(),
            background: Mutex::default(),
        }
    }
}

//! The options of all steps.

use std::sync::Mutex;

use crate::parallel::Gate;

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) at_a_time: usize,
    pub(crate) tests_are_built: Gate,
    /// Locked while steps run in the background.
    pub(crate) background: Mutex<()>,
}

impl Default for Options {
    fn default() -> Self {
        // Tests mostly wait. More binaries would hardly save time.
        Self {
            quick: false,
            at_a_time: 2,
            tests_are_built: Gate::default(),
            background: Mutex::default(),
        }
    }
}

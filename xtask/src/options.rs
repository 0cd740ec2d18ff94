//! The options of all steps.

use crate::parallel::Gate;

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    /// The number of parallel test binaries.
    pub(crate) at_a_time: usize,
    /// Opened when the tests are built. Then the build steps start next to them.
    pub(crate) tests_are_built: Gate,
}

impl Default for Options {
    fn default() -> Self {
        // Tests mostly wait. With more than two binaries, the run would end hardly sooner.
        Self { quick: false, at_a_time: 2, tests_are_built: Gate::default() }
    }
}

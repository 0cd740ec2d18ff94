//! The conformance suite that every Lockwright backend passes.
//!
//! A backend's author implements one [`Factory`], and gets every case as a named test (feature `harness`):
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     lockwright_conformance::harness::main(MyFactory)
//! }
//! ```
//!
//! `lockwright conformance --url …` runs the same cases against a live server and prints a [`Report`]. A case that
//! the backend's profile doesn't promise is reported as not promised, never silently passed.
//!
//! | module | subject |
//! |---|---|
//! | [`factory`] | the interface that a backend's author implements |
//! | [`case`](mod@case) | a case, its requirements, its outcome |
//! | [`failure`] | the failure of a case |
//! | [`cases`] | the table of cases, with a file for each group |
//! | [`context`] | the environment of a case |
//! | [`client`] | the client under test |
//! | [`report`] | the runner, and the table of outcomes |
//! | `harness` | the cases as tests |
//! | [`child`] | child processes of cases |
//! | [`faults`] | faults injected around any backend |
//! | [`cancel`] | futures that are dropped at a chosen await point |
//! | [`history`] | journals of several processes, their checks, and a picture of a run |
//! | [`test_helpers`] | helpers for the tests of backends |
//! | [`queue_tests`] | tests for backends that keep readers, writers and permits in one queue |
//! | [`liveness`] | waiting while clients die, stop or close |
//! | [`participants`] | holders and waiters, for tests whose servers fail |
//! | [`protected`] | a protected store that rejects late writes by their fence |
//! | [`silence`] | connections that go silent while new ones work |
//! | [`register`] | the resource that the locks protect |
//! | [`workload`] | the work of one client process in a run with random faults |
#![forbid(unsafe_code)]

pub mod cancel;
pub mod case;
pub mod cases;
pub mod child;
pub mod client;
pub mod context;
pub mod factory;
pub mod failure;
pub mod faults;
#[cfg(feature = "harness")]
pub mod harness;
pub mod history;
pub mod liveness;
pub mod participants;
pub mod protected;
pub mod queue_tests;
pub mod register;
pub mod report;
pub mod silence;
pub mod test_helpers;
pub mod workload;

pub use case::{Case, Group, Need, Outcome};
pub use context::Context;
pub use factory::{Connect, Factory, Fragile, Harm, Live, Runtime, Step, connector};
pub use failure::{Failure, Verdict};
pub use faults::Faulty;
pub use protected::{Protect, Protected, protect};
pub use report::{Report, Row, run, run_telling};

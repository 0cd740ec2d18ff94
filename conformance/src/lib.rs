//! The conformance suite that every Lockwright backend passes.
//!
//! A backend's author writes one [`Factory`], and gets every case as a named test
//! (feature `harness`):
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     lockwright_conformance::harness::main(MyFactory)
//! }
//! ```
//!
//! The same cases run against a live server and answer a [`Report`], as `lockwright conformance
//! --url …` does. A case that the backend's profile doesn't promise is reported as not promised,
//! never silently passed.
//!
//! | module | subject |
//! |---|---|
//! | [`factory`] | what a backend's author writes |
//! | [`case`](mod@case) | a case, what it needs of the profile, how it ended |
//! | [`cases`] | the table, a file for each group |
//! | [`crowds`] | many who ask at once |
//! | [`context`] | what a case works with |
//! | [`report`] | running them, and the table of outcomes |
//! | `harness` | running them as tests |
//! | [`child`] | the other processes of the cases that need some |
//! | [`faults`] | faults injected around any backend |
//! | [`cancel`] | futures that are dropped at a chosen await point |
//! | [`history`] | journals of several processes, their checks, and a picture of a run |
//! | [`kit`] | what a backend's own tests begin with |
//! | [`liveness`] | waiting while clients die, stop or close |
//! | [`participants`] | holders and waiters, for tests whose servers fail |
//! | [`protected`] | what refuses late writes by their fence, for the cases about that |
//! | [`explorer`] | every state of a model |
//! | [`silence`] | connections that go silent while new ones work |
//! | [`register`] | the ground truth: what the locks protect |
//! | [`workload`] | the work of one client process in a run with random faults |
#![forbid(unsafe_code)]

pub mod cancel;
pub mod case;
pub mod cases;
pub mod child;
pub mod context;
pub mod crowds;
pub mod explorer;
pub mod factory;
pub mod faults;
#[cfg(feature = "harness")]
pub mod harness;
pub mod history;
pub mod kit;
pub mod liveness;
pub mod participants;
pub mod protected;
pub mod register;
pub mod report;
pub mod silence;
pub mod workload;

pub use case::{Case, Failure, Group, Need, Outcome, Verdict};
pub use context::Context;
pub use factory::{Connect, Factory, Fragile, Harm, Live, Runtime, Step, connector};
pub use faults::Faulty;
pub use protected::{Protect, Protected, protect};
pub use report::{Report, Row, run, run_telling};

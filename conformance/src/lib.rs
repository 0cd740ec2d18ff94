//! The conformance suite that every Lockwright backend passes.
//!
//! A [`Factory`] describes a backend. `harness::main` (feature `harness`) then runs each case as a
//! test. `lockwright conformance --url …` runs the same cases against a live server and prints a
//! [`Report`].
#![forbid(unsafe_code)]

pub mod cancel;
pub mod case;
pub mod cases;
pub mod child;
pub mod client;
mod context;
pub mod factory;
pub mod failure;
pub mod faults;
#[cfg(feature = "harness")]
pub mod harness;
pub mod history;
pub mod protected;
pub mod register;
pub mod report;
pub mod silence;
pub mod test_helpers;
pub mod workload;

pub use case::{Case, Group, Outcome};
pub use factory::{
    Connect, Factory, Fragile, Harm, Runtime, Step, connector, connector_to, problem,
};
pub use failure::{Failure, Verdict};
pub use faults::Faulty;
pub use protected::{Protect, Protected, protect};
pub use report::{Report, Row, run, run_telling};

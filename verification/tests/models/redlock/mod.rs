//! A model of the Redlock protocol with its fence. It explores every interleaving within bounds, and the consequences
//! of omitting each rule.
//!
//! See `docs/src/redlock-model.md`, whose figures and traces are compared with the results.

mod holds;
mod mutants;
mod nodes;
mod page;
mod protocol;
mod rules;
mod state;
mod story;

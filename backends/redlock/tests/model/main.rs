//! The Redlock protocol with its fence as a model, every interleaving of it within bounds; and, for
//! each of its rules, what happens without it.
//!
//! What is modelled, and how, says `docs/src/redlock-model.md`. The figures and the traces there are
//! compared with what comes out here.
#![forbid(unsafe_code)]

mod holds;
mod mutants;
mod nodes;
mod page;
mod protocol;
mod rules;
mod state;
mod story;

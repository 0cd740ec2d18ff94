//! A model of the Redlock protocol with its fence. It explores every interleaving within bounds, and for each
//! rule the consequences of omitting it.
//!
//! `docs/src/redlock-model.md` describes the model. Its figures and traces are compared with the results
//! here.
#![forbid(unsafe_code)]

mod holds;
mod mutants;
mod nodes;
mod page;
mod protocol;
mod rules;
mod state;
mod story;

//! A model of the Redlock protocol with its fence. Its figures and traces are compared with
//! `docs/src/redlock-model.md`.

mod holds;
mod mutants;
mod nodes;
mod page;
mod protocol;
mod rules;
mod state;
mod story;

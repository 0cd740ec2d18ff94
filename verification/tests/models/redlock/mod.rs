//! A model of the Redlock protocol with its fence. The tests compare its numbers of states and its
//! traces with `docs/src/redlock-model.md`.

mod holds;
mod model;
mod mutants;
mod nodes;
mod rules;
mod state;
mod story;

//! A model of the Redlock protocol with its fence. The tests compare its numbers of states and its
//! traces with `docs/src/redlock-model.md`.

mod holds;
mod mutants;
mod nodes;
mod protocol;
mod rules;
mod state;
mod story;

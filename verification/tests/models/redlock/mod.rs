//! A model of the Redlock protocol with its fence. In a *round*, a client sends a claim, a repeated
//! claim or a renewal to the nodes, with its *candidate* for the fence. An *incarnation* is a
//! node's data between two losses. The tests compare the numbers of states and the traces with
//! `docs/src/redlock-model.md`.

mod holds;
mod model;
mod mutants;
mod nodes;
mod rules;
mod state;
mod story;

//! `lockwright` with real processes, signals and terminals.
#![forbid(unsafe_code)]

mod config;
mod elect;
mod errors;
mod flags;
mod generate;
mod harness;
mod log;
mod loss;
mod nested;
mod operator;
mod run;
mod several;
mod signals;
mod terminal;
mod ticket;
mod watch;

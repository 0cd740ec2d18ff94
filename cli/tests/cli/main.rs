//! `lockwright` as its users meet it: real processes, real signals, a real terminal.
#![forbid(unsafe_code)]

mod config;
mod errors;
mod flags;
mod harness;
mod loss;
mod nested;
mod operator;
mod run;
mod signals;
mod terminal;

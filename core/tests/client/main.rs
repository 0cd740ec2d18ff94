//! The client's contract, rule by rule, on the memory backend and a clock that the tests move.
#![forbid(unsafe_code)]

mod basics;
mod support;

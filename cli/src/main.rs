//! The `lockwright` command.
#![forbid(unsafe_code)]

fn main() {}

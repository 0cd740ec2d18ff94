//! The task runner of this repository.
#![forbid(unsafe_code)]

fn main() {}

//! Tests of the suite's own parts, and of the pages about them.
#![forbid(unsafe_code)]

mod cases;
mod history;
mod page;
mod picture;
mod register;

//! The table of conformance cases.

use crate::case::Case;

mod breaking;
mod cancellation;
mod election;
mod enforcement;
mod exclusion;
mod expiry;
mod fencing;
mod hand_over;
mod loss;
mod misdelete;
mod multi;
mod names;
mod operator;
mod order;
mod permits;
mod processes;
mod reentrancy;
mod renewal;
mod repeats;
mod servers;
mod shared;
mod tickets;
mod waiting;

const GROUPS: &[&[Case]] = &[
    exclusion::CASES,
    processes::EXCLUSION,
    processes::EXPIRY,
    processes::LOSS,
    expiry::CASES,
    reentrancy::CASES,
    misdelete::CASES,
    fencing::CASES,
    waiting::CASES,
    order::CASES,
    hand_over::CASES,
    shared::CASES,
    permits::CASES,
    multi::CASES,
    election::CASES,
    tickets::CASES,
    enforcement::CASES,
    breaking::CASES,
    renewal::CASES,
    loss::CASES,
    cancellation::CASES,
    repeats::CASES,
    names::CASES,
    operator::CASES,
    servers::CASES,
];

/// Returns all cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    GROUPS.iter().copied().flatten()
}

/// Returns the case with this name.
pub fn named(name: &str) -> Option<&'static Case> {
    all().find(|case| case.name == name)
}

//! The table of cases.

use crate::case::Case;

mod breaking;
mod cancellation;
mod election;
mod enforcement;
mod exclusion;
mod expiry;
mod fencing;
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn no_two_cases_have_one_name() {
        let names: HashSet<_> = super::all().map(|case| case.name).collect();
        assert_eq!(names.len(), super::all().count());
    }

    #[test]
    fn the_number_is_as_reported() {
        assert!(super::all().count() >= 60, "{}", super::all().count());
    }
}

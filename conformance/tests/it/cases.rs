use std::collections::HashSet;

use lockwright_conformance::cases::all;

#[test]
fn no_two_cases_have_one_name() {
    let names: HashSet<_> = all().map(|case| case.name).collect();
    assert_eq!(names.len(), all().count());
}

#[test]
fn the_number_is_as_reported() {
    assert!(all().count() >= 60, "{}", all().count());
}

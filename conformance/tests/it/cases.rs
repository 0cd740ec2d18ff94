use std::collections::HashSet;

use lockwright_conformance::cases::all;

#[test]
fn case_names_are_unique() {
    let names: HashSet<_> = all().map(|case| case.name).collect();
    assert_eq!(names.len(), all().count());
}

#[test]
fn suite_has_at_least_60_cases() {
    assert!(all().count() >= 60, "{}", all().count());
}

use std::path::Path;

fn page() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(here.join("../docs/src/writing-a-backend.md")).unwrap()
}

#[test]
fn the_page_shows_the_example_as_it_is() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = std::fs::read_to_string(here.join("examples/own_backend.rs")).unwrap();
    assert!(
        page().contains(&format!("```rust\n{example}```\n")),
        "docs/src/writing-a-backend.md doesn't show conformance/examples/own_backend.rs as it is"
    );
}

#[test]
fn the_page_names_cases_that_are_there() {
    let page = page();
    let (_, table) = page.split_once("| mistake | the case |").expect("the table of mistakes");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cases: Vec<&str> = rows.filter_map(|row| row.rsplit('`').nth(1)).collect();
    assert!(cases.len() > 30, "{} rows", cases.len());
    for case in cases {
        assert!(lockwright_conformance::cases::named(case).is_some(), "there is no case {case}");
    }
}

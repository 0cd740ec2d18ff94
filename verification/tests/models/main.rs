//! Models of protocols. The tests explore every interleaving of steps within bounds: with all rules
//! of a protocol, and without each single rule. `docs/src/models.md` describes the models.
#![forbid(unsafe_code)]

mod hand_over;
mod redlock;
mod tickets;
mod wire;

use std::path::Path;

use lockwright_verification::{Page, Protocol, explore};

/// More states than this are a mistake in a model.
const LIMIT: usize = 20_000_000;

fn page() -> Page {
    Page::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/models.md"))
}

/// Checks that the protocol keeps every promise, and that the page has a row with the numbers of
/// its states and steps.
fn holds<P: Protocol>(title: &str, protocol: &P) {
    let explored = explore(protocol, LIMIT, |_| true);
    if let Some((promise, trace)) = &explored.broken {
        panic!("{title}: {promise:?}\n{trace}");
    }
    let row = Page::row(title, &explored);
    println!("{row}");
    page().has(&row);
}

/// Like `holds`, but the page has no row for this protocol.
fn holds_too<P: Protocol>(title: &str, protocol: &P) {
    let explored = explore(protocol, LIMIT, |_| true);
    println!("{title}: {} states", explored.states);
    assert!(explored.broken.is_none(), "{title}: {:?}", explored.broken);
}

/// Checks that `protocol`, which lacks a rule, breaks the promise `wanted`, and that the page has
/// the trace.
fn refuted<P: Protocol>(title: &str, protocol: &P, wanted: P::Promise) {
    let explored = explore(protocol, LIMIT, |promise| promise == wanted);
    let Some((promise, trace)) = explored.broken else {
        panic!("{title}: nothing is broken in {} states", explored.states)
    };
    let text = Page::refutation(title, &format!("**Not: {}.**", words(promise)), &trace);
    println!("{text}");
    page().has(&text);
}

/// Returns `one client holds` for `OneClientHolds`.
fn words(promise: impl std::fmt::Debug) -> String {
    let mut text = String::new();
    for letter in format!("{promise:?}").chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// Checks that this event is possible, so that the promises aren't kept trivially.
fn happens<P: Protocol>(what: &str, protocol: &P, event: P::Promise) {
    let explored = explore(protocol, LIMIT, |promise| promise == event);
    assert!(explored.broken.is_some(), "this event never happens: {what}");
}

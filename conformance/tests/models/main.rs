//! Protocols of more than one step as models: every interleaving of them within bounds, and, for each of
//! their rules, what happens without it. `docs/src/models.md` says what is modelled, and shows what came out.
#![forbid(unsafe_code)]

mod handover;
mod tickets;
mod wire;

use std::path::Path;

use lockwright_conformance::explorer::{Page, Protocol, explore};

/// More states than this are more than was meant.
const LIMIT: usize = 20_000_000;

fn page() -> Page {
    Page::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/models.md"))
}

/// With all of its rules it keeps every promise: the row of the page's table.
fn holds<P: Protocol>(title: &str, protocol: &P) {
    let explored = explore(protocol, LIMIT, |_| true);
    if let Some((promise, trace)) = &explored.broken {
        panic!("{title}: {promise:?}\n{trace}");
    }
    let row = Page::row(title, &explored);
    println!("{row}");
    page().has(&row);
}

/// It keeps every promise within other bounds than those on the page.
fn holds_too<P: Protocol>(title: &str, protocol: &P) {
    let explored = explore(protocol, LIMIT, |_| true);
    println!("{title}: {} states", explored.states);
    assert!(explored.broken.is_none(), "{title}: {:?}", explored.broken);
}

/// Without a rule it breaks this promise: the shortest way to that is on the page.
fn refuted<P: Protocol>(title: &str, protocol: &P, wanted: P::Promise) {
    let explored = explore(protocol, LIMIT, |promise| promise == wanted);
    let Some((promise, trace)) = explored.broken else {
        panic!("{title}: nothing is broken in {} states", explored.states)
    };
    let text = Page::refutation(title, &format!("**Not: {}.**", words(promise)), &trace);
    println!("{text}");
    page().has(&text);
}

/// `one believes`, of `OneBelieves`.
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

/// It can come to this at all: what is promised isn't promised of nothing.
fn happens<P: Protocol>(what: &str, protocol: &P, event: P::Promise) {
    let explored = explore(protocol, LIMIT, |promise| promise == event);
    assert!(explored.broken.is_some(), "it never comes to this: {what}");
}

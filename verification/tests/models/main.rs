//! Models of protocols. The tests explore every interleaving of steps within bounds: with all rules
//! of a protocol, and without each single rule. `docs/src/models.md` describes the models.
#![forbid(unsafe_code)]

macro_rules! refuted {
    ($($test:ident: $($argument:expr),+;)*) => {$(
        #[test]
        fn $test() {
            refuted($($argument),+);
        }
    )*};
}

mod hand_over;
mod redlock;
mod tickets;
mod wire;

use std::path::Path;
use std::time::Instant;

use lockwright_verification::{Explored, Page, Protocol, explore};

trait Model: Protocol {
    const PAGE: &'static str = "models.md";

    fn broken(promise: Self::Promise) -> String {
        format!("Not: {}", words(promise))
    }
}

fn page<M: Model>(folder: &str) -> Page {
    Page::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(M::PAGE))
}

fn results<M: Model>() -> Page {
    page::<M>("../docs/src")
}

fn traces<M: Model>() -> Page {
    page::<M>("tests/models/traces")
}

fn has_refutation<M: Model>(title: &str, promise: M::Promise, trace: &str) {
    let broken = M::broken(promise);
    traces::<M>().has(&Page::refutation(title, &broken, trace));
    results::<M>().has(&format!("| {title} | {broken} | {} |", trace.lines().count()));
}

fn explored<M: Model>(title: &str, model: &M) -> Explored<M::Promise> {
    let explored = explore(model, |_| true);
    if let Some((promise, trace)) = &explored.broken {
        panic!("{title}: {}\n{trace}", M::broken(*promise));
    }
    explored
}

fn row<M: Model>(title: &str, model: &M) -> String {
    let begun = Instant::now();
    let row = Page::row(title, &explored(title, model));
    println!("{row} {:.1?}", begun.elapsed());
    row
}

fn holds<M: Model>(title: &str, model: &M) {
    results::<M>().has(&row(title, model));
}

/// Checks that `model`, which lacks a rule, breaks the promise `wanted`, and that the pages have the
/// result and the trace.
fn refuted<M: Model>(title: &str, model: &M, wanted: M::Promise) {
    refuted_as(title, model, |promise| promise == wanted);
}

fn refuted_as<M: Model>(title: &str, model: &M, wanted: impl Fn(M::Promise) -> bool) {
    let explored = explore(model, wanted);
    let Some((promise, trace)) = explored.broken else {
        panic!("{title}: nothing is broken in {} states", explored.states)
    };
    println!("{}", Page::refutation(title, &M::broken(promise), &trace));
    has_refutation::<M>(title, promise, &trace);
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

/// Checks that `event` is possible, so that the promises aren't kept trivially.
fn happens<P: Protocol>(what: &str, protocol: &P, event: P::Promise) {
    let explored = explore(protocol, |promise| promise == event);
    assert!(explored.broken.is_some(), "this event never happens: {what}");
}

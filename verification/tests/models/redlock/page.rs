use std::path::Path;

use lockwright_verification::{Explored, Page};

use super::rules::Promise;

fn page() -> Page {
    Page::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/redlock-model.md"))
}

pub(crate) fn has(expected: &str) {
    page().has(expected);
}

pub(crate) fn row(title: &str, explored: &Explored<Promise>) -> String {
    Page::row(title, explored)
}

pub(crate) fn refutation(title: &str, promise: Promise, trace: &str) -> String {
    Page::refutation(title, broken(promise), trace)
}

pub(crate) fn trace_of(title: &str) -> String {
    page().trace_of(title)
}

pub(crate) fn broken(promise: Promise) -> &'static str {
    match promise {
        Promise::OneHolder => "**Two clients hold.**",
        Promise::FencesDiffer => "**Two grants, one fence.**",
        Promise::FencesGrow => "**A later hold, a smaller fence.**",
        Promise::NothingIsLeft => "**An ended token is still held.**",
        Promise::TheNextIsGranted => "**No client can be granted.**",
    }
}

//! Replaces the module `span` in a build without the feature `tracing-spans`.

use std::sync::Arc;

use crate::{LockName, Mode, Result};

use super::{Hold, Shared};

#[derive(Debug)]
pub(super) struct Span;

impl Span {
    #[inline(always)]
    pub(super) fn in_scope<T>(&self, call: impl FnOnce() -> T) -> T {
        call()
    }
}

#[inline(always)]
pub(super) fn acquire(_: &Shared, _: &LockName, _: Mode) -> Span {
    Span
}

#[inline(always)]
pub(super) fn hold(_: &Hold) -> Span {
    Span
}

#[inline(always)]
pub(super) fn release(_: &Span) -> Span {
    Span
}

#[inline(always)]
pub(super) fn instrument<F: Future>(future: F, _: &Span) -> F {
    future
}

#[inline(always)]
pub(super) fn in_current_span<F: Future>(future: F) -> F {
    future
}

#[inline(always)]
pub(super) fn record_outcome(_: &Span, _: &Result<Option<Arc<Hold>>>) {}

#[inline(always)]
pub(super) fn record_error<T>(_: &Span, _: &Result<T>) {}

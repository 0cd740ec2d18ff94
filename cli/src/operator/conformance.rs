//! `conformance`: the suite, against a live server.

use crate::args::{Conformance, Place};
use crate::exit::{self, Failure};

/// Runs the suite where `place` says.
pub(super) async fn conformance(place: &Place, what: &Conformance) -> Result<u8, Failure> {
    let _ = (place, what);
    Err(Failure::new(exit::CONFIG, "unsupported", "this build has no conformance suite"))
}

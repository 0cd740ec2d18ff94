use lockwright_core::{Claim, Error, Mode, Result};

/// Returns the `token` column's value for readers or permit holders. An exclusive hold's column has
/// its token (32 hex digits).
pub(crate) fn kind(mode: Mode) -> Option<String> {
    match mode {
        Mode::Shared => Some(READERS.to_owned()),
        Mode::Permits { of, .. } => Some(format!("{SEMAPHORE}{of}")),
        _ => None,
    }
}

pub(crate) const READERS: &str = "readers";
const SEMAPHORE: &str = "semaphore of ";

pub(crate) fn present(token: &str) -> Option<Mode> {
    if token == READERS {
        return Some(Mode::Shared);
    }
    match token.strip_prefix(SEMAPHORE) {
        Some(of) => of.parse().ok().map(|of| Mode::Permits { count: of, of }),
        None => Some(Mode::Exclusive),
    }
}

pub(crate) fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Shared => "shared",
        Mode::Permits { .. } => "permits",
        _ => "exclusive",
    }
}

pub(crate) fn permits(mode: Mode) -> (u32, u32) {
    match mode {
        Mode::Permits { count, of } => (count, of),
        _ => (0, 0),
    }
}

pub(crate) fn mode(word: &str, permits: i64, size: i64) -> Option<Mode> {
    match word {
        "exclusive" => Some(Mode::Exclusive),
        "shared" => Some(Mode::Shared),
        "permits" => {
            Some(Mode::Permits { count: permits.try_into().ok()?, of: size.try_into().ok()? })
        }
        _ => None,
    }
}

pub(crate) fn identity_text(claim: &Claim) -> Result<String> {
    serde_json::to_string(&*claim.identity).map_err(|cause| {
        Error::invalid_input("the identity can't be written as JSON").with_source(cause)
    })
}

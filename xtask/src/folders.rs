use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    // With a shared target folder, the path in this binary may be another clone's, so the variable
    // comes first.
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map(Path::to_path_buf).unwrap_or(here)
}

pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

pub(crate) fn logs() -> PathBuf {
    target().join("xtask")
}

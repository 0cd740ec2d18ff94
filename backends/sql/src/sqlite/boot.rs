//! The boot id, which makes instants of the boot clock comparable.

use std::fs;
use std::sync::Arc;

use lockwright_core::{Error, Result};

/// The id of this boot. Two processes with the same id share one `CLOCK_BOOTTIME`.
pub(super) fn boot_id() -> Result<Arc<str>> {
    const ID: &str = "/proc/sys/kernel/random/boot_id";
    const OFFSETS: &str = "/proc/self/timens_offsets";

    let id = fs::read_to_string(ID).map_err(|source| {
        Error::unavailable(format!(
            "the boot id can't be read from {ID}; lock files need a mounted /proc"
        ))
        .with_source(source)
    })?;
    // A kernel without time namespaces has no such file.
    if let Ok(offsets) = fs::read_to_string(OFFSETS)
        && shifts_boot_clock(&offsets)
    {
        return Err(Error::invalid_config(
            "this process is in a time namespace that shifts CLOCK_BOOTTIME, so that other \
             processes read another time than it does; run it outside of that namespace",
        ));
    }
    Ok(Arc::from(id.trim()))
}

fn shifts_boot_clock(offsets: &str) -> bool {
    offsets.lines().any(|line| {
        let mut words = line.split_whitespace();
        // The clock is shown by name or, on old kernels, by number.
        matches!(words.next(), Some("boottime" | "7")) && words.any(|number| number != "0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_id_is_the_kernels() {
        let id = boot_id().unwrap();
        assert_eq!(id.len(), 36, "{id}");
        assert_eq!(id, boot_id().unwrap());
    }

    #[test]
    fn a_shifted_boot_clock_is_noticed() {
        assert!(!shifts_boot_clock(
            "monotonic           0         0\nboottime            0         0\n"
        ));
        assert!(!shifts_boot_clock(
            "monotonic           5         0\nboottime            0         0\n"
        ));
        assert!(shifts_boot_clock(
            "monotonic           0         0\nboottime          -10         0\n"
        ));
        assert!(shifts_boot_clock(
            "monotonic           0         0\nboottime            0         1\n"
        ));
    }
}

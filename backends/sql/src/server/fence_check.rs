use std::time::Duration;

use lockwright_core::{Error, ErrorKind, Fence, LockName, Reason, Result};

use super::dialect::{BadRow, Row};
use super::errors::bad_row;
use super::sql::Value;

pub(crate) fn number(fence: Fence, backend: &'static str) -> Result<i64> {
    let fence = fence.checked().map_err(|error| error.with_backend(backend))?;
    Ok(fence.get() as i64) // A checked fence is far below `i64::MAX`.
}

const STEP: i64 = 500;

pub(crate) fn sweeping(idle: Duration) -> [(&'static str, Value<'static>); 2] {
    let idle = idle.as_secs() + u64::from(idle.subsec_nanos() > 0);
    // At most a hundred years, because every server can subtract that from the time.
    let idle = i64::try_from(idle).unwrap_or(i64::MAX).min(100 * 366 * 24 * 60 * 60);
    [("idle_s", Value::Int(idle)), ("limit", Value::Int(STEP))]
}

pub(crate) fn swept(rows: &[Row]) -> Result<u64, BadRow> {
    let number = rows.last().ok_or(BadRow)?.int(0)?;
    u64::try_from(number).map_err(|_| BadRow)
}

/// Returns an error if the recorded fence, in the last row, is higher than `fence`.
pub(crate) fn check(
    name: &LockName,
    fence: Fence,
    rows: &[Row],
    backend: &'static str,
) -> Result<()> {
    let highest = rows.last().ok_or(BadRow).and_then(|row| row.int(0));
    compare(name, fence, highest.map_err(|bad| bad_row(bad, backend))?, backend)
}

fn compare(name: &LockName, fence: Fence, highest: i64, backend: &'static str) -> Result<()> {
    match u64::try_from(highest) {
        Ok(highest) if highest <= fence.get() => Ok(()),
        _ => Err(Error::new(
            ErrorKind::Lost(Reason::Superseded),
            format!(
                "the fence {} is too old: a later holder has written with {highest}; roll this \
                 transaction back, and begin again with a new hold, and read the data again",
                fence.get()
            ),
        )
        .with_name(name)
        .with_backend(backend)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_refused_only_below_the_highest() {
        let name = LockName::new("a").unwrap();
        for (fence, highest, allowed) in [(5, 4, true), (5, 5, true), (5, 6, false)] {
            let answer = compare(&name, Fence::new(fence), highest, "x");
            assert_eq!(answer.is_ok(), allowed, "{fence} {highest}");
        }
    }
}

use std::time::Duration;

use lockwright::backend::duration;

pub(crate) fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = some(text)?;
    let longest = lockwright::Profile::LONGEST_TTL;
    if ttl > longest {
        return Err(format!(
            "at most {} days: the TTL is how long other clients wait if the holder fails, not how \
             long the command may run (the hold is renewed while it runs)",
            longest.as_secs() / 86_400
        ));
    }
    Ok(ttl)
}

pub(crate) fn any(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn some(text: &str) -> Result<Duration, String> {
    match any(text)? {
        time if time.is_zero() => Err("a time of zero is not allowed".to_owned()),
        time => Ok(time),
    }
}

pub(crate) fn every(text: &str) -> Result<Duration, String> {
    match any(text)? {
        time if time < Duration::from_millis(100) => Err("at least 100ms".to_owned()),
        time => Ok(time),
    }
}

pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..=9 => format!("{:.1} s", duration.as_secs_f64()),
        10..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Like [`show`], but in whole seconds, for a time that changes each second.
pub(crate) fn show_elapsed(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..=9 => format!("{seconds} s"),
        _ => show(duration),
    }
}

pub(crate) fn show_at_most(duration: Duration) -> String {
    let unit = match duration.as_secs() {
        0 => Duration::from_millis(1),
        1..=9 => Duration::from_millis(100),
        10..=119 => Duration::from_secs(1),
        120..=7_199 => Duration::from_secs(60),
        7_200..=172_799 => Duration::from_secs(3_600),
        _ => Duration::from_secs(86_400),
    };
    let units = duration.as_nanos().div_ceil(unit.as_nanos());
    show(unit.saturating_mul(u32::try_from(units).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_people_read() {
        for (millis, shown) in [
            (5, "5 ms"),
            (1_500, "1.5 s"),
            (29_900, "29 s"),
            (600_000, "10 min"),
            (7_200_000, "2 h"),
            (200_000_000, "2 days"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), shown);
        }
    }

    #[test]
    fn an_upper_bound_is_rounded_up() {
        for (millis, shown) in [
            (5, "5 ms"),
            (1_510, "1.6 s"),
            (29_100, "30 s"),
            (119_500, "2 min"),
            (179_000, "3 min"),
            (10_740_000, "3 h"),
            (250_560_000, "3 days"),
        ] {
            assert_eq!(show_at_most(Duration::from_millis(millis)), shown);
        }
    }
}

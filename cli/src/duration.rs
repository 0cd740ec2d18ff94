//! Times as people write them: `30s`, `500ms`, `1m`, `1h`, `2d`, or a number of seconds.

use std::time::Duration;

/// A TTL: more than nothing and at most what any backend takes.
pub(crate) fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = some(text)?;
    let longest = lockwright::Profile::LONGEST_TTL;
    if ttl > longest {
        return Err(format!(
            "at most {} days: the TTL is how long everybody waits when the holder dies, not how \
             long the command may take (it is renewed for as long as that runs)",
            longest.as_secs() / 86_400
        ));
    }
    Ok(ttl)
}

/// Any time, zero included.
pub(crate) fn any(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds_each = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(hint(text)),
    };
    let number: f64 = number.parse().map_err(|_| hint(text))?;
    Duration::try_from_secs_f64(number * seconds_each)
        .map_err(|_| format!("{text:?} is longer than can be reckoned with"))
}

/// A time that something may take: more than nothing.
pub(crate) fn some(text: &str) -> Result<Duration, String> {
    match any(text)? {
        time if time.is_zero() => Err("a time of zero would be over before it began".to_owned()),
        time => Ok(time),
    }
}

fn hint(text: &str) -> String {
    format!("{text:?} is not a time; write 30s, 500ms, 1.5m, 1h, or a number of seconds")
}

/// A time as a person wants to read it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_people_write() {
        for (text, millis) in [
            ("30s", 30_000),
            ("30", 30_000),
            ("0.25", 250),
            ("500ms", 500),
            ("1.5m", 90_000),
            ("1min", 60_000),
            ("2h", 7_200_000),
            ("0", 0),
        ] {
            assert_eq!(any(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest_with_a_hint() {
        for text in ["", "s", "1 s", "-1", "1y", "1.2.3", "ten", "1e3", "99999999999999999999d"] {
            assert!(any(text).is_err(), "{text}");
        }
        assert!(ttl("0").unwrap_err().contains("zero"));
        assert!(ttl("31d").unwrap_err().contains("30 days"));
        assert_eq!(ttl("30d"), Ok(Duration::from_secs(30 * 86_400)));
    }

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
}

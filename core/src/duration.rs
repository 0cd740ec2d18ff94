//! Durations in configurations and on command lines.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::{Error, Result};

/// Parses a duration: `30s`, `500ms`, `1.5m`, `1h`, `2d`, or a number of seconds.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) with the valid forms.
pub fn parse(text: &str) -> Result<Duration> {
    let hint = || {
        Error::invalid_input(format!(
            "{text:?} is not a time; write 30s, 500ms, 1.5m, 1h, or a number of seconds"
        ))
    };
    let unit_at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds_each = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(hint()),
    };
    let number: f64 = number.parse().map_err(|_| hint())?;
    Duration::try_from_secs_f64(number * seconds_each)
        .map_err(|_| Error::invalid_input(format!("{text:?} is too long; use a shorter time")))
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a time: \"30s\", \"500ms\", or a number of seconds")]
enum Time {
    Text(String),
    Seconds(f64),
}

/// Reads a text for [`parse`], or a number of seconds, for `#[serde(deserialize_with)]`.
///
/// # Errors
/// The deserializer's, with the valid forms.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<Time>::deserialize(from)?.map(|time| match time {
        Time::Text(text) => text,
        Time::Seconds(seconds) => seconds.to_string(),
    });
    text.map(|text| parse(&text).map_err(D::Error::custom)).transpose()
}

pub(crate) fn shown(time: Duration) -> String {
    const DAY: u64 = 86_400;
    match time.as_secs() / DAY {
        days @ 2.. if time == Duration::from_secs(days * DAY) => format!("{days} days"),
        _ => format!("{time:?}"),
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
            assert_eq!(parse(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn shows_days_as_days() {
        let seconds = |seconds| shown(Duration::from_secs(seconds));
        assert_eq!(seconds(30 * 86_400), "30 days");
        assert_eq!(seconds(40), "40s");
        assert_eq!(seconds(2 * 86_400 + 1), "172801s");
        assert_eq!(shown(Duration::from_millis(50)), "50ms");
    }

    #[test]
    fn refuses_the_rest_with_a_hint() {
        for text in ["", "s", "1 s", "-1", "1y", "1.2.3", "ten", "1e3", "99999999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

use super::statistics::Spread;
use crate::results::Regime;

pub(super) const NONE: &str = "–";

pub(super) fn title(measure: &str) -> String {
    match measure {
        "longest_wait_us" => "longest wait of a round".to_owned(),
        "jain" => "fairness (Jain)".to_owned(),
        _ => {
            let title = measure.replace("_us", "").replace("_percent", "").replace("cpu", "CPU");
            title.replace("bytes", "memory").replace("hand_over", "hand-over").replace('_', " ")
        }
    }
}

/// Even idle servers cause smaller differences.
pub(super) fn resolution(measure: &str) -> f64 {
    match unit(measure) {
        Unit::Percent => 0.5,
        Unit::PerSecond if measure.contains("commands") => 2.0,
        _ => 0.0,
    }
}

pub(super) fn figure(measure: &str, value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value < 0.0 {
        return format!("−{}", figure(measure, -value));
    }
    match unit(measure) {
        Unit::Microseconds => time(value),
        Unit::Bytes => scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"]),
        Unit::PerSecond => format!("{}/s", count(value)),
        Unit::Percent => format!("{} %", number(value)),
        Unit::Number => count(value),
    }
}

pub(super) fn ratio(ratio: &Spread) -> String {
    let median = times(ratio.median);
    if ratio.rounds < 2 || median == NONE {
        return median;
    }
    format!("{median} ({}–{})", times(ratio.low), times(ratio.high))
}

pub(super) fn times(ratio: f64) -> String {
    if !ratio.is_finite() {
        NONE.to_owned()
    } else if ratio >= 99.95 {
        count(ratio)
    } else if ratio >= 9.995 {
        format!("{ratio:.1}")
    } else if ratio >= 0.0995 || ratio == 0.0 {
        format!("{ratio:.2}")
    } else {
        number(ratio)
    }
}

pub(super) fn regime(regime: Regime) -> &'static str {
    match regime {
        Regime::OneCore => "one core",
        Regime::TwoCores => "two cores",
    }
}

pub(super) fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G"])
}

pub(super) fn many(number: u64, of: &str) -> String {
    let one = of.strip_suffix("es").filter(|one| one.ends_with("ss")).or(of.strip_suffix('s'));
    let of = one.filter(|_| number == 1).unwrap_or(of);
    format!("{} {of}", count(number as f64))
}

pub(super) fn time(microseconds: f64) -> String {
    if microseconds < 0.9995 && microseconds > 0.0 {
        return format!("{} ns", number(microseconds * 1e3));
    }
    if microseconds >= 999.5e3 {
        return format!("{} s", number(microseconds / 1e6));
    }
    scaled(microseconds, 1000.0, &[" µs", " ms"])
}

pub(super) fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

#[derive(Debug, PartialEq)]
enum Unit {
    Microseconds,
    Bytes,
    PerSecond,
    Percent,
    Number,
}

fn unit(measure: &str) -> Unit {
    if measure.ends_with("_us") || measure.contains("_us_per_") {
        Unit::Microseconds
    } else if measure.contains("bytes") {
        Unit::Bytes
    } else if measure.ends_with("_per_second") {
        Unit::PerSecond
    } else if measure.ends_with("_percent") {
        Unit::Percent
    } else {
        Unit::Number
    }
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.6 is 1k, not 1000.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{}{}", number(value), units[unit])
}

fn number(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let size = value.abs();
    let digits = if size == 0.0 || size >= 99.95 {
        0
    } else if size >= 9.995 {
        1
    } else if size >= 0.995 {
        2
    } else {
        (1.0 - size.log10().floor()).min(12.0) as usize
    };
    let text = format!("{value:.digits$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        for (measure, value, expected) in [
            ("pairs_per_second", 12_345.0, "12.3k/s"),
            ("pairs_per_second", 999.6, "1k/s"),
            ("pairs_per_second", 0.0, "0/s"),
            ("p50_us", 1_400.0, "1.4 ms"),
            ("p50_us", 137.2, "137 µs"),
            ("p50_us", 0.058, "58 ns"),
            ("p50_us", 0.0, "0 µs"),
            ("longest_wait_us", 3_210_000.0, "3.21 s"),
            ("longest_wait_us", 321_000_000.0, "321 s"),
            ("client_cpu_us_per_pair", 12.0, "12 µs"),
            ("server_bytes_per_hold", 193.0, "193 B"),
            ("client_bytes_per_hold", 5_427.0, "5.3 KiB"),
            ("client_bytes_per_hold", -20.0, "−20 B"),
            ("server_cpu_percent", 6.04, "6.04 %"),
            ("server_cpu_percent", 0.0123, "0.012 %"),
            ("jain", 0.756, "0.76"),
            ("server_commands_per_hand_over", 1_475.0, "1.48k"),
            ("server_commands_per_pair", 2.0, "2"),
            ("p99_us", f64::NAN, NONE),
        ] {
            assert_eq!(figure(measure, value), expected, "{measure} {value}");
        }
    }

    #[test]
    fn ratios_have_their_spread() {
        let spread = |low, median, high, rounds| Spread { low, median, high, rounds };
        assert_eq!(ratio(&spread(0.8, 0.83, 0.861, 7)), "0.83 (0.80–0.86)");
        assert_eq!(ratio(&spread(0.0026, 0.0026, 0.0026, 1)), "0.0026");
        assert_eq!(ratio(&spread(9.0, 12.0, 1_500.0, 3)), "12.0 (9.00–1.5k)");
        assert_eq!(ratio(&spread(2.0, f64::INFINITY, f64::INFINITY, 3)), NONE);
    }

    #[test]
    fn one_is_not_many() {
        let written = ["processes", "held names"].map(|of| (many(1, of), many(10_000, of)));
        assert_eq!(written[0], ("1 process".to_owned(), "10k processes".to_owned()));
        assert_eq!(written[1], ("1 held name".to_owned(), "10k held names".to_owned()));
    }

    #[test]
    fn durations_have_readable_units() {
        assert_eq!([42.4, 125.0, 6_720.0].map(duration), ["42 s", "2 min", "1 h 52 min"]);
    }
}

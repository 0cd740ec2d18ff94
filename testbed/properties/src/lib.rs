//! Random input for the unit tests of parsers.
//!
//! By default, each run checks each property with the same [`CASES`] inputs; with
//! `LOCKWRIGHT_PROPERTY_SECONDS`, with new inputs for that many seconds. A failure prints the
//! input.
#![forbid(unsafe_code)]

use std::fmt::{Debug, Display};
use std::time::Duration;

use arbtest::arbitrary::{Arbitrary, Result, Unstructured};
use arbtest::arbtest;

/// The default number of inputs per property.
pub const CASES: u32 = 3_000;

const SPECIAL: [char; 40] = [
    ':', '/', '?', '#', '@', '&', '=', '%', ',', ';', '.', '-', '_', '+', '[', ']', '{', '}', '"',
    '\'', '\\', '<', '>', '|', '!', '*', ' ', '\t', '\n', '\0', '\u{1f}', '\u{7f}', '0', '1', '9',
    'f', 'é', '\u{e000}', '\u{feff}', '🔒',
];

fn seconds() -> Option<Duration> {
    let seconds = std::env::var("LOCKWRIGHT_PROPERTY_SECONDS").ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// Checks a property of texts, most of them mutations of `valid`.
pub fn texts(valid: &[&str], mut property: impl FnMut(&str)) {
    check(|input| text(input, valid), |text| property(text));
}

/// Checks a property of byte strings, most of them mutations of `valid`.
pub fn bytes(valid: &[&[u8]], mut property: impl FnMut(&[u8])) {
    check(|input| some_bytes(input, valid), |bytes| property(bytes));
}

/// Checks a property of pairs of texts.
pub fn pairs(valid: &[&str], mut property: impl FnMut(&str, &str)) {
    let pair = |input: &mut Unstructured<'_>| Ok((text(input, valid)?, text(input, valid)?));
    check(pair, |(one, other)| property(one, other));
}

/// Checks a property of URLs: one of `before`, a password with [`SECRET`] at both ends, `@`, and a
/// mutation of one of `after`.
pub fn urls_with_secrets(before: &[&str], after: &[&str], mut property: impl FnMut(&str)) {
    let url = |input: &mut Unstructured<'_>| {
        let (before, middle) = (*input.choose(before)?, text(input, &["", "x"])?);
        Ok(format!("{before}{SECRET}{middle}{SECRET}@{}", text(input, after)?))
    };
    check(url, |url| property(url));
}

/// Checks that a URL parser returns a printable value or a clear error.
pub fn urls<C: Debug, E: Display>(
    valid: &[&str],
    parse: impl Fn(&str) -> std::result::Result<C, E>,
) {
    texts(valid, |url| match parse(url) {
        Ok(config) => assert!(!format!("{config:?}").is_empty()),
        Err(error) => assert!(error.to_string().len() > 20, "{error}"),
    });
}

/// Checks that neither the result nor the error of a parser of URLs shows a password.
pub fn no_password_is_shown<C: Debug, E: Debug + Display>(
    before: &[&str],
    after: &[&str],
    parse: impl Fn(&str) -> std::result::Result<C, E>,
) {
    urls_with_secrets(before, after, |url| match parse(url) {
        Ok(config) => assert_clear(format!("{config:?}")),
        Err(error) => {
            assert_clear(&error);
            assert_clear(format!("{error:?}"));
        }
    });
}

/// A text in each generated password.
pub const SECRET: &str = "hush";

/// Asserts that a message isn't empty and has no [`SECRET`].
pub fn assert_clear(message: impl ToString) {
    let message = message.to_string();
    assert!(!message.trim().is_empty(), "an empty message");
    assert!(!message.contains(SECRET), "a secret in a message: {message}");
}

/// Checks a property of the values that `make` creates.
pub fn check<T: Debug>(
    make: impl Fn(&mut Unstructured<'_>) -> Result<T>,
    mut property: impl FnMut(&T),
) {
    let mut run = |input: &mut Unstructured<'_>| {
        if let Ok(value) = make(input) {
            let shown = Shown(value);
            property(&shown.0);
        }
        Ok(())
    };
    match seconds() {
        Some(seconds) => arbtest(run).size_max(2_048).budget(seconds).run(),
        None => (1..=CASES).for_each(|case| arbtest(&mut run).seed(seed(case)).run()),
    }
}

fn seed(case: u32) -> u64 {
    let random = case.wrapping_mul(0x9e37_79b9);
    u64::from(random) << 32 | 32 << (case % 7)
}

struct Shown<T: Debug>(T);

impl<T: Debug> Drop for Shown<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the property fails for {:?}", self.0);
        }
    }
}

/// Returns a random text, usually a mutation of `valid`.
///
/// # Errors
/// If the random input is used up.
pub fn text(input: &mut Unstructured<'_>, valid: &[&str]) -> Result<String> {
    let valid: Vec<Vec<char>> = valid.iter().map(|text| text.chars().collect()).collect();
    let special = SPECIAL.map(|special| vec![special]);
    let text = match input.int_in_range(0..=15)? {
        0 => Vec::new(),
        _ => input.choose(&valid)?.clone(),
    };
    Ok(edited(input, text, &valid, &special)?.into_iter().collect())
}

fn some_bytes(input: &mut Unstructured<'_>, valid: &[&[u8]]) -> Result<Vec<u8>> {
    let valid: Vec<Vec<u8>> = valid.iter().map(|bytes| bytes.to_vec()).collect();
    let special = SPECIAL.map(|special| special.to_string().into_bytes());
    let bytes = input.choose(&valid)?.clone();
    edited(input, bytes, &valid, &special)
}

fn edited<T: Clone + for<'a> Arbitrary<'a>>(
    input: &mut Unstructured<'_>,
    mut text: Vec<T>,
    valid: &[Vec<T>],
    special: &[Vec<T>],
) -> Result<Vec<T>> {
    for _ in 0..input.int_in_range(0..=5)? {
        let from = input.int_in_range(0..=text.len())?;
        let to = input.int_in_range(from..=text.len().min(from + 8))?;
        let (range, new) = match input.int_in_range(0..=6)? {
            0 => (from..to, Vec::new()),
            1 => (from..text.len(), Vec::new()),
            2 => (from..from, text[from..to].to_vec()),
            3 => {
                let other = input.choose(valid)?;
                (from..to, other[input.int_in_range(0..=other.len())?..].to_vec())
            }
            4 => (from..to, vec![input.arbitrary()?]),
            _ => (from..to, input.choose(special)?.clone()),
        };
        text.splice(range, new);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_nearly_valid() {
        let (mut valid, mut others) = (0_u64, 0_u64);
        texts(&["orders/42"], |text| if text == "orders/42" { valid += 1 } else { others += 1 });
        assert!(valid > 0 && others > valid, "{valid} and {others}");
    }

    #[test]
    #[should_panic(expected = "a secret in a message")]
    fn secrets_are_found() {
        urls_with_secrets(&["redis://me:"], &["db"], |url| assert_clear(url));
    }
}

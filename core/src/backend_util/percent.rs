//! Percent-encoding of names (RFC 3986, section 2.1).

use std::fmt::Write as _;

/// Encodes `%` and each character for which `must_go` is true.
///
/// ```
/// use lockwright_core::backend_util::percent;
///
/// assert_eq!(percent::encode("a/b 5%", |c| c == '/'), "a%2Fb 5%25");
/// ```
pub fn encode(text: &str, must_go: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '%' || must_go(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                write!(encoded, "%{byte:02X}").expect("a string takes everything");
            }
        } else {
            encoded.push(c);
        }
    }
    encoded
}

/// Decodes the output of [`encode`]. Returns `None` for an invalid escape or invalid UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        decoded.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_encoding_is_refused() {
        for text in ["%", "%4", "%zz", "%+1", "%ff"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}

use std::fmt::Write;

/// Escapes text from other clients, so it can't move the cursor, set the clipboard or forge lines.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let _ = match c {
            _ if c.is_control() => write!(out, "{}", c.escape_debug()),
            _ if is_line_or_direction_control(c) => write!(out, "{}", c.escape_unicode()),
            _ => out.write_char(c),
        };
    }
    out
}

fn is_line_or_direction_control(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("job \"7\" o'clock \\ ü", "job \"7\" o'clock \\ ü"),
            ("\u{1b}[2J\u{7}", "\\u{1b}[2J\\u{7}"),
            ("a\nb\rc\td", "a\\nb\\rc\\td"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
        ] {
            assert_eq!(escape(text), shown);
        }
    }
}

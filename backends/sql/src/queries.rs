//! SQL files with several queries. The line `/* NAME … */` above a query has the query's names.

const HEADER: &[u8] = b"/* ";

/// Returns the file's query with this name.
///
/// # Panics
/// If there is none. In a constant, this fails the build.
pub(crate) const fn find<'a>(file: &'a str, name: &str) -> &'a str {
    let mut rest = file;
    loop {
        let (line, after) = split_line(rest);
        if is_header_of(line.as_bytes(), name.as_bytes()) {
            return until_header(after);
        }
        assert!(!after.is_empty(), "the file has no query with this name");
        rest = after;
    }
}

const fn until_header(text: &str) -> &str {
    let mut rest = text;
    while !rest.is_empty() && !starts_with(rest.as_bytes(), HEADER) {
        rest = split_line(rest).1;
    }
    text.split_at(text.len() - rest.len()).0.trim_ascii_end()
}

const fn split_line(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        at += 1;
        if bytes[at - 1] == b'\n' {
            break;
        }
    }
    text.split_at(at)
}

const fn is_header_of(line: &[u8], name: &[u8]) -> bool {
    if !starts_with(line, HEADER) {
        return false;
    }
    let mut rest = line.split_at(HEADER.len()).1;
    loop {
        if starts_with(rest, name) && starts_with(rest.split_at(name.len()).1, b" ") {
            return true;
        }
        while !starts_with(rest, b" ") {
            if rest.is_empty() {
                return false;
            }
            rest = rest.split_at(1).1;
        }
        rest = rest.split_at(1).1;
    }
}

const fn starts_with(text: &[u8], start: &[u8]) -> bool {
    let mut at = 0;
    while at < start.len() {
        if at >= text.len() || text[at] != start[at] {
            return false;
        }
        at += 1;
    }
    true
}

macro_rules! files {
    ($($file:literal),+) => {
        concat!($(include_str!(concat!("queries/", $file, ".sql"))),+)
    };
}
pub(crate) use files;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "-- About the file.\n/* one */\n-- A comment.\nSELECT 1;\n\
                        /* one_more also */\nSELECT 2;\nSELECT 3;\n";

    #[test]
    fn query_ends_before_the_next() {
        assert_eq!(find(FILE, "one"), "-- A comment.\nSELECT 1;");
        assert_eq!(find(FILE, "one_more"), "SELECT 2;\nSELECT 3;");
        assert_eq!(find(FILE, "also"), "SELECT 2;\nSELECT 3;");
    }

    #[test]
    #[should_panic(expected = "no query with this name")]
    fn missing_query_is_an_error() {
        find(FILE, "one_mor");
    }
}

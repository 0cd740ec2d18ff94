//! SQL files with several queries. The line `/* NAME … */` above a query has the query's names.

/// Returns the file's query with this name. Panics if there is none.
pub(crate) fn find<'a>(file: &'a str, name: &str) -> &'a str {
    let queries = file.split("/* ").filter_map(|part| part.split_once(" */\n"));
    let mut named = queries.filter(|(names, _)| names.split(' ').any(|known| known == name));
    match named.next() {
        Some((_, query)) => query.trim_ascii_end(),
        None => panic!("the file has no query {name:?}"),
    }
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
                        /* one_more also */\nSELECT 2 /*! + 1 */;\nSELECT 3;\n";

    #[test]
    fn query_ends_before_the_next() {
        assert_eq!(find(FILE, "one"), "-- A comment.\nSELECT 1;");
        assert_eq!(find(FILE, "one_more"), "SELECT 2 /*! + 1 */;\nSELECT 3;");
        assert_eq!(find(FILE, "also"), "SELECT 2 /*! + 1 */;\nSELECT 3;");
    }

    #[test]
    #[should_panic(expected = "no query \"one_mor\"")]
    fn missing_query_is_an_error() {
        find(FILE, "one_mor");
    }
}

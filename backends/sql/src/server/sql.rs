use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Int(i64),
    Bool(bool),
    Text(&'a str),
    Null,
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Value::Text)
    }
}

pub(crate) type Arguments<'a> = &'a [(&'static str, Value<'a>)];

/// SQL with parameters written as `:name`, without comments.
///
/// The SQL is sent as one plain query with literals: one round trip, and no prepared statement that
/// might be missing on a pooler's connection. A dialect may prepare the SQL of [`Sql::to_prepare`].
#[derive(Debug, Clone)]
pub(crate) struct Sql {
    pieces: Vec<Piece>,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    prepared: Option<Prepared>,
}

/// A statement to prepare. Its parameters are written as `$1`, `$2`, …
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
pub(crate) struct Prepared {
    pub(crate) text: Arc<str>,
    pub(crate) parameters: Vec<String>,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Parameter(String),
}

impl Sql {
    pub(crate) fn new(text: &str) -> Self {
        let text: Vec<&str> = text
            .lines()
            .map(|line| line.split_once("--").map_or(line, |(code, _)| code).trim())
            .filter(|line| !line.is_empty())
            .collect();
        let text = text.join(" ");
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        let mut from = 0;
        while let Some(found) = rest[from..].find(':') {
            let colon = from + found;
            let name = &rest[colon + 1..];
            let length =
                name.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(name.len());
            if length == 0 || rest[..colon].ends_with(':') {
                from = colon + 1;
                continue;
            }
            pieces.push(Piece::Text(rest[..colon].to_owned()));
            pieces.push(Piece::Parameter(name[..length].to_owned()));
            rest = &name[length..];
            from = 0;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Self { pieces, prepared: None }
    }

    /// Creates a statement to prepare. The text must be a single statement.
    pub(crate) fn to_prepare(text: &str) -> Self {
        let mut sql = Self::new(text.trim_end().trim_end_matches(';'));
        let mut parameters: Vec<String> = Vec::new();
        let text = sql.with_parameters(|name, text| {
            let known = parameters.iter().position(|known| known == name);
            let at = known.unwrap_or_else(|| {
                parameters.push(name.to_owned());
                parameters.len() - 1
            });
            text.push_str(&format!("${}", at + 1));
        });
        sql.prepared = Some(Prepared { text: text.into(), parameters });
        sql
    }

    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn prepared(&self) -> Option<&Prepared> {
        self.prepared.as_ref()
    }

    fn with_parameters(&self, mut write: impl FnMut(&str, &mut String)) -> String {
        let mut text = String::with_capacity(4096);
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Parameter(name) => write(name, &mut text),
            }
        }
        text
    }

    pub(crate) fn render(
        &self,
        arguments: Arguments<'_>,
        literal: impl Fn(Value<'_>, &mut String),
    ) -> String {
        self.with_parameters(|name, text| literal(value(arguments, name), text))
    }
}

pub(crate) fn value<'a>(arguments: Arguments<'a>, name: &str) -> Value<'a> {
    match arguments.iter().find(|(known, _)| *known == name) {
        Some((_, value)) => *value,
        None => unreachable!("the parameter {name} has no value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(value: Value<'_>, text: &mut String) {
        text.push_str(&format!("<{value:?}>"));
    }

    #[test]
    fn parameters_are_found_and_casts_are_none() {
        let sql =
            Sql::new("-- A comment with :nothing.\nSELECT :name::text, x::bigint, -- :no\n  :at");
        let text = sql.render(&[("at", Value::Int(7)), ("name", Value::Text(":at"))], literal);
        assert_eq!(text, "SELECT <Text(\":at\")>::text, x::bigint, <Int(7)>");
    }

    #[test]
    fn repeated_parameters_have_one_number() {
        let sql = Sql::to_prepare("SELECT :b, :a, :b\n");
        let prepared = sql.prepared().unwrap();
        assert_eq!(
            (&*prepared.text, prepared.parameters.join(" ")),
            ("SELECT $1, $2, $1", "b a".into())
        );
    }
}

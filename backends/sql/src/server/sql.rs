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
/// might be missing on a pooler's connection. A dialect may prepare a [hot](Sql::hot) statement.
#[derive(Debug, Clone)]
pub(crate) struct Sql {
    pieces: Vec<Piece>,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    hot: Option<&'static str>,
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
        Self { pieces, hot: None }
    }

    /// Marks a statement as frequent. Its `name` must be unique in the database.
    pub(crate) fn hot(name: &'static str, text: &str) -> Self {
        Self { hot: Some(name), ..Self::new(text) }
    }

    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn hot_name(&self) -> Option<&'static str> {
        self.hot
    }

    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn parameters(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for piece in &self.pieces {
            if let Piece::Parameter(name) = piece
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        }
        names
    }

    pub(crate) fn with_parameters(&self, mut write: impl FnMut(&str, &mut String)) -> String {
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
}

use std::sync::Arc;

use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Database, Encode, Type};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Int(i64),
    Bool(bool),
    Text(&'a str),
    Null,
}

pub(crate) type Arguments<'a> = &'a [(&'static str, Value<'a>)];

/// SQL with parameters written as `:name`, without comments.
///
/// The client sends it in one round trip as a plain query with literals, because a pooler's
/// connection might lack a prepared statement. A dialect may prepare the SQL of
/// [`Sql::to_prepare`].
#[derive(Debug, Clone)]
pub(crate) struct Sql {
    /// For each parameter, the text before it, and its name.
    parameters: Vec<(String, String)>,
    end: String,
    prepared: Option<Prepared>,
}

#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) text: Arc<str>,
    pub(crate) parameters: Vec<String>,
}

impl Prepared {
    pub(crate) fn bind<'a, D: Database>(
        &self,
        arguments: Arguments<'a>,
    ) -> Query<'a, D, D::Arguments>
    where
        i64: Encode<'a, D> + Type<D>,
        bool: Encode<'a, D> + Type<D>,
        &'a str: Encode<'a, D> + Type<D>,
        Option<&'a str>: Encode<'a, D> + Type<D>,
    {
        // Safe: table names are checked, and the values are parameters.
        let mut query = sqlx::query(AssertSqlSafe(Arc::clone(&self.text)));
        for name in &self.parameters {
            query = match value(arguments, name) {
                Value::Int(number) => query.bind(number),
                Value::Bool(yes) => query.bind(yes),
                Value::Text(text) => query.bind(text),
                Value::Null => query.bind(None::<&str>),
            };
        }
        query
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placeholder {
    /// `$1`, `$2`, … A repeated parameter keeps its number.
    Numbered,
    /// `?` for each occurrence of a parameter.
    QuestionMark,
}

impl Sql {
    pub(crate) fn new(text: &str) -> Self {
        let text: Vec<&str> = text
            .lines()
            .map(|line| line.split_once("--").map_or(line, |(code, _)| code).trim())
            .filter(|line| !line.is_empty())
            .collect();
        let text = text.join(" ");
        let text = text.trim_end_matches(';');
        let mut parts = text.split(':');
        let (mut parameters, mut end) = (vec![], parts.next().unwrap_or_default().to_owned());
        for part in parts {
            let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
            let rest = part.trim_start_matches(is_of_name);
            let name = &part[..part.len() - rest.len()];
            if name.is_empty() || end.ends_with(':') {
                end = format!("{end}:{part}");
            } else {
                let before = std::mem::replace(&mut end, rest.to_owned());
                parameters.push((before, name.to_owned()));
            }
        }
        Self { parameters, end, prepared: None }
    }

    /// Creates SQL from a text that has no parameters or comments.
    pub(crate) fn raw(text: String) -> Self {
        Self { parameters: vec![], end: text, prepared: None }
    }

    /// Creates SQL that is prepared, unless it has several statements.
    pub(crate) fn to_prepare(text: &str, placeholder: Placeholder) -> Self {
        let mut sql = Self::new(text);
        sql.prepared = Some(sql.with_placeholders(placeholder))
            .filter(|prepared| !prepared.text.contains(';'));
        sql
    }

    pub(crate) fn with_placeholders(&self, placeholder: Placeholder) -> Prepared {
        let mut parameters: Vec<String> = Vec::new();
        let text = self.with_parameters(|name, text| {
            if placeholder == Placeholder::QuestionMark {
                parameters.push(name.to_owned());
                text.push('?');
                return;
            }
            let known = parameters.iter().position(|known| known == name);
            let at = known.unwrap_or_else(|| {
                parameters.push(name.to_owned());
                parameters.len() - 1
            });
            text.push_str(&format!("${}", at + 1));
        });
        Prepared { text: text.into(), parameters }
    }

    pub(crate) fn prepared(&self) -> Option<&Prepared> {
        self.prepared.as_ref()
    }

    fn with_parameters(&self, mut write: impl FnMut(&str, &mut String)) -> String {
        let mut text = String::with_capacity(4096);
        for (before, name) in &self.parameters {
            text.push_str(before);
            write(name, &mut text);
        }
        text + &self.end
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
    fn repeated_parameters_have_one_number_or_several_question_marks() {
        for (placeholder, text, parameters) in [
            (Placeholder::Numbered, "SELECT $1, $2, $1", "b a"),
            (Placeholder::QuestionMark, "SELECT ?, ?, ?", "b a b"),
        ] {
            let sql = Sql::to_prepare("SELECT :b, :a, :b\n", placeholder);
            let prepared = sql.prepared().unwrap();
            assert_eq!((&*prepared.text, &*prepared.parameters.join(" ")), (text, parameters));
        }
        let several = Sql::to_prepare("SELECT 1; SELECT :a;", Placeholder::QuestionMark);
        assert!(several.prepared().is_none());
    }
}

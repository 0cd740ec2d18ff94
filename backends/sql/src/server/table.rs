use lockwright_core::{Error, Result};

const DEFAULT: &str = "lockwright";

/// The longest prefix with which a table's whole name fits every server's limit.
const LONGEST: usize = 40;

const LONGEST_SCHEMA: usize = 63;

const TABLES: &str =
    "lease shared_holder tombstone meta hold hold_fence hold_raised reader row fence turn";

/// The tables' schema and prefix: only letters, digits and underscores, because they become part of
/// the SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    schema: Option<String>,
    prefix: String,
}

impl Default for Tables {
    fn default() -> Self {
        Self { schema: None, prefix: DEFAULT.to_owned() }
    }
}

impl Tables {
    pub(crate) fn named(mut self, prefix: &str) -> Result<Self> {
        check("table", prefix, LONGEST)?;
        prefix.clone_into(&mut self.prefix);
        Ok(self)
    }

    pub(crate) fn within(mut self, schema: &str) -> Result<Self> {
        check("schema", schema, LONGEST_SCHEMA)?;
        self.schema = Some(schema.to_owned());
        Ok(self)
    }

    pub(crate) fn found_in(mut self, schema: Option<String>) -> Result<Self> {
        // Other characters could end a name or a text in the SQL.
        let is_safe = |name: &String| {
            name.chars().all(|c| c.is_alphanumeric() || "_-.$ ".contains(c)) && !name.contains("--")
        };
        if self.schema.is_none() {
            self.schema = Some(schema.filter(is_safe).ok_or_else(|| {
                Error::invalid_config(
                    "no schema was found, or its name has special characters; set `schema_name`",
                )
            })?);
        }
        Ok(self)
    }

    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// Replaces each table's placeholder, such as `{lease}`, by its quoted name, and `{prefix}` by
    /// the prefix of index names.
    pub(crate) fn expand(&self, text: &str, quote: char) -> String {
        let mut text = text.replace("{prefix}", &self.prefix);
        let schema = self.schema.as_ref().map(|schema| format!("{quote}{schema}{quote}."));
        let schema = schema.unwrap_or_default();
        for table in TABLES.split_whitespace() {
            let name = format!("{schema}{quote}{}_{table}{quote}", self.prefix);
            text = text.replace(&format!("{{{table}}}"), &name);
        }
        text
    }

    /// Returns the notification channel. It lacks the schema, which clients may name explicitly or
    /// by default.
    pub(crate) fn channel(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn shown(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}_*", self.prefix),
            None => format!("{}_*", self.prefix),
        }
    }
}

fn check(what: &str, name: &str, longest: usize) -> Result<()> {
    let sound = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && name.len() <= longest;
    if sound {
        return Ok(());
    }
    Err(Error::invalid_config(format!(
        "{name:?} can't be the {what}: write small letters, digits and underscores, at most \
         {longest}, and not a digit first"
    )))
}

#[cfg(test)]
mod tests {
    use lockwright_core::ErrorKind;

    use super::*;

    #[test]
    fn names_are_quoted() {
        let tables = Tables::default();
        assert_eq!(
            tables.expand("{lease}, {meta}", '"'),
            r#""lockwright_lease", "lockwright_meta""#
        );
        let tables = tables.named("shop").unwrap().within("select").unwrap();
        assert_eq!(tables.expand("{hold} {prefix}_x", '`'), "`select`.`shop_hold` shop_x");
        assert_eq!(tables.shown(), "select.shop_*");
    }

    #[test]
    fn nothing_is_injected() {
        let (statement, long) = ("x\"; DROP TABLE users; --", "x".repeat(64));
        for bad in [
            "", statement, "x y", "x`y", "x'y", "x;y", "x.y", "x-y", "1x", "Orders", "ordré",
            "x\0", "{lease}", ":name", &long,
        ] {
            for refused in [Tables::default().named(bad), Tables::default().within(bad)] {
                let error = refused.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{bad:?}");
                assert!(error.to_string().contains("small letters"), "{error}");
            }
        }
    }
}

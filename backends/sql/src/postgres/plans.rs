//! Prepared plans for frequent statements, because planning an acquire takes several times as long
//! as executing it.
//!
//! The first use of a statement prepares it in SQL, under a name derived from its text. The
//! driver's own preparation would take two round trips.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::dialect::Postgresql;
use crate::server::dialect::Dialect;
use crate::server::sql::{Arguments, Sql, Value, value};

#[derive(Debug, Default)]
pub(super) struct Plans {
    /// True if connections are direct. Behind a pooler, plans would be in other sessions.
    kept: AtomicBool,
    known: Mutex<HashMap<&'static str, Arc<Plan>>>,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: Arc<str>,
    pub(super) prepare: String,
    parameters: Vec<String>,
}

impl Plans {
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    pub(super) fn are_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }

    /// Returns the plan of a statement. The arguments for a `name` must always have the same types.
    pub(super) fn of(&self, name: &'static str, sql: &Sql, arguments: Arguments<'_>) -> Arc<Plan> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(name).or_insert_with(|| Arc::new(Plan::new(sql, arguments))))
    }
}

impl Plan {
    fn new(sql: &Sql, arguments: Arguments<'_>) -> Self {
        let parameters: Vec<String> = sql.parameters().into_iter().map(str::to_owned).collect();
        let types: Vec<&str> = parameters
            .iter()
            .map(|name| match value(arguments, name) {
                Value::Int(_) => "bigint",
                Value::Bool(_) => "boolean",
                Value::Text(_) | Value::Null => "text",
            })
            .collect();
        let text = sql.with_parameters(|name, text| {
            let place = parameters.iter().position(|known| known == name).unwrap_or_default();
            text.push_str(&format!("${}", place + 1));
        });
        let statement = format!("({}) AS {text}", types.join(", "));
        let mut hasher = DefaultHasher::new();
        statement.hash(&mut hasher);
        let name = format!("lockwright_{:016x}", hasher.finish());
        Self { prepare: format!("PREPARE {name} {statement}"), name: name.into(), parameters }
    }

    pub(super) fn execute(&self, arguments: Arguments<'_>) -> String {
        let mut text = format!("EXECUTE {}", self.name);
        for (at, name) in self.parameters.iter().enumerate() {
            text.push_str(if at == 0 { " (" } else { ", " });
            Postgresql::literal(value(arguments, name), &mut text);
        }
        if !self.parameters.is_empty() {
            text.push(')');
        }
        text
    }
}

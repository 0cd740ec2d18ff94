//! Plans that the server keeps for what is sent often.
//!
//! Planning an acquire anew takes it several times as long as carrying it out. The driver's own way
//! of preparing takes two round trips for the first use, and its names are numbers. Here statements
//! are prepared in SQL, along with their first use, under names that are made of their texts. Only
//! where nothing stands in between: behind a pooler what is prepared doesn't stay with us.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::dialect::Postgresql;
use crate::server::dialect::Dialect;
use crate::server::sql::{Arguments, Sql, Value, value};

/// The statements of one backend that have plans.
#[derive(Debug, Default)]
pub(super) struct Plans {
    /// Whether connections of the server are our own.
    kept: AtomicBool,
    /// By the names of the texts.
    known: Mutex<HashMap<&'static str, Arc<Plan>>>,
}

/// One statement with a plan.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: Arc<str>,
    /// What makes the server plan it.
    pub(super) prepare: String,
    parameters: Vec<String>,
}

impl Plans {
    /// Plans are kept from here on.
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    pub(super) fn are_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }

    /// The plan of a statement, whose arguments always have the same types.
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

    /// What carries it out with these values.
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

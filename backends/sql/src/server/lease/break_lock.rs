use std::time::Duration;

use lockwright_core::{BreakMode, BreakTarget, Broken, Error, LockName, Result, Token};

use super::{LeaseBackend, TOMBSTONE};
use crate::server::hold_row::micros_up;
use crate::server::{Dialect, Effect, Value};

const BREAK_TRIES: usize = 10;

impl<D: Dialect> LeaseBackend<D> {
    pub(super) async fn break_it(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        note: &str,
    ) -> Result<Broken> {
        for _ in 0..BREAK_TRIES {
            // Each statement breaks one token's hold, so `BreakTarget::Any` needs all tokens.
            let tokens = match seen {
                BreakTarget::Token(token) => vec![token],
                BreakTarget::Any => {
                    let holders = self.look(name).await?.holders;
                    holders.into_iter().filter_map(|holder| holder.token).collect()
                }
            };
            let mut broken = Broken::NotHeld;
            for token in &tokens {
                broken = broken.and(self.break_one(name, *token, how, note).await)?;
            }
            if broken != Broken::NotHeld || seen != BreakTarget::Any || tokens.is_empty() {
                return Ok(broken);
            }
        }
        Err(Error::unavailable("the holder changes too fast to be broken; try again"))
    }

    async fn break_one(
        &self,
        name: &LockName,
        token: Token,
        how: BreakMode,
        note: &str,
    ) -> Result<Broken> {
        let token = token.to_string();
        let arguments = [
            ("name", Value::Text(name.as_str())),
            ("token", Value::Text(&token)),
            ("broken", Value::Text(note)),
            ("tombstone", Value::Int(micros_up(TOMBSTONE))),
            ("channel", Value::Text(self.pool.dialect().channel())),
        ];
        let (alone, shared, left_at) = match how {
            BreakMode::RunOut => (&self.statements.break_run_out, &self.statements.shared_break, 0),
            BreakMode::Now => (&self.statements.break_now, &self.statements.shared_break_now, 2),
        };
        let change = |sql| self.pool.fetch(sql, &arguments, Effect::Changes);
        let micros = match change(alone).await?.last() {
            Some(row) => Some(self.pool.sound(row.int(0))?),
            None => {
                let left = change(shared).await?.last().and_then(|row| row.int(left_at).ok());
                left.filter(|micros| *micros > 0)
            }
        };
        let left = |micros: i64| Duration::from_micros(micros.try_into().unwrap_or(0));
        Ok(match (micros.map(left), how) {
            (None, _) => Broken::NotHeld,
            (Some(left), BreakMode::RunOut) => Broken::RunsOut(left),
            (Some(left), BreakMode::Now) => Broken::Freed(left),
        })
    }
}

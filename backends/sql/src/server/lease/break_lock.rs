use std::time::Duration;

use lockwright_core::{BreakMode, BreakTarget, Broken, Error, LockName, Result, Token};

use super::{LeaseBackend, TOMBSTONE};
use crate::server::hold_row::micros_up;
use crate::server::{Dialect, Value};

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
                BreakTarget::Any => self.holders(name).await?,
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
        let (alone, shared, left) = match how {
            BreakMode::RunOut => (&self.statements.break_run_out, &self.statements.shared_break, 0),
            BreakMode::Now => (&self.statements.break_now, &self.statements.shared_break_now, 2),
        };
        let mut left_at = 0;
        let mut rows = self.change(alone, &arguments).await?;
        if rows.is_empty() {
            rows = self.change(shared, &arguments).await?;
            left_at = left;
        }
        match rows.last().map(|row| row.int(left_at)) {
            Some(Ok(micros)) if micros > 0 || left_at == 0 => {
                let left = Duration::from_micros(micros.try_into().unwrap_or(0));
                Ok(match how {
                    BreakMode::RunOut => Broken::RunsOut(left),
                    BreakMode::Now => Broken::Freed(left),
                })
            }
            Some(Err(bad)) if left_at == 0 => self.pool.sound(Err(bad)),
            _ => Ok(Broken::NotHeld),
        }
    }

    async fn holders(&self, name: &LockName) -> Result<Vec<Token>> {
        let holders = self.look(name).await?.holders;
        Ok(holders.into_iter().filter_map(|holder| holder.token).collect())
    }
}

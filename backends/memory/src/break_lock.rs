use lockwright_core::{BootInstant, BreakMode, BreakTarget, Broken, LockName, Token};

use crate::row::Held;
use crate::store::{Done, Store};

impl Store {
    /// Breaks the holds that match `seen`. Also returns their tokens, to notify the holders.
    pub(crate) fn break_lock(
        &mut self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        note: &str,
        now: BootInstant,
    ) -> Done<(Broken, Vec<Token>)> {
        let nothing = || Done { answer: (Broken::NotHeld, Vec::new()), wake: false };
        let Some(row) = self.names.get_mut(name) else { return nothing() };
        row.expire(now);
        let is_meant = |hold: &Held| match seen {
            BreakTarget::Token(token) => token == hold.token,
            BreakTarget::Any => true,
        };
        let meant = || row.holds().filter(|hold| is_meant(hold));
        let Some(left) = meant().map(|hold| hold.left(now)).max() else { return nothing() };
        let tokens: Vec<Token> = meant().map(|hold| hold.token).collect();
        match how {
            BreakMode::RunOut => {
                for hold in row.holds_mut().filter(|hold| is_meant(hold)) {
                    hold.broken.get_or_insert_with(|| note.into());
                }
                Done { answer: (Broken::RunsOut(left), tokens), wake: false }
            }
            BreakMode::Now => {
                for token in &tokens {
                    row.remove(*token);
                    // If the holder's acquire arrives again, the tombstone rejects it.
                    self.tombstones.insert(*token, now);
                }
                let wake = row.lets_next_in();
                if row.is_idle() {
                    self.names.remove(name);
                }
                Done { answer: (Broken::Freed(left), tokens), wake }
            }
        }
    }
}

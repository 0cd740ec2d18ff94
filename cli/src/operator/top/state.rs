use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lockwright::operator::Inspection;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::operator::poller::{HoldKey, holds};
use crate::operator::show::{age, left};
use crate::run::holder_name;
use crate::{Failure, duration, escape};

const BAR: usize = 10;

#[derive(Debug, Default)]
pub(super) struct TopScreen {
    rows: BTreeMap<HoldKey, Row>,
    has_read: bool,
    pub(super) failure: Option<String>,
    sort: Sort,
    is_reversed: bool,
    filter: String,
    is_typing: bool,
    offset: usize,
    page: usize,
}

#[derive(Debug, Default, Clone, Copy)]
enum Sort {
    #[default]
    Name,
    Left,
    Waiters,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) holder: String,
    left: String,
    remaining: Option<Duration>,
    /// The longest time left of all polls: the TTL isn't known.
    longest: Duration,
    pub(super) waiters: Option<u64>,
    /// The time of the grant, or of the first poll that had the hold.
    since: Instant,
    /// True if the first poll had the hold, and the time of the grant is unknown.
    is_older: bool,
}

impl Row {
    pub(super) fn since(&self, now: Instant) -> String {
        let mark = if self.is_older { ">" } else { "" };
        format!("{mark}{}", duration::show_elapsed(now.saturating_duration_since(self.since)))
    }

    pub(super) fn left(&self) -> String {
        let Some(remaining) = self.remaining else { return self.left.clone() };
        let full = self.longest.as_millis().max(1);
        let filled = (remaining.as_millis() * BAR as u128).div_ceil(full) as usize;
        format!("{}{} {}", "█".repeat(filled), "░".repeat(BAR - filled), self.left)
    }
}

impl TopScreen {
    pub(super) fn update(&mut self, snapshot: Result<Vec<Inspection>, Failure>, now: Instant) {
        let names = match snapshot {
            Ok(names) => names,
            Err(failure) => return self.failure = Some(escape(&failure.message)),
        };
        let mut old = std::mem::take(&mut self.rows);
        for (key, seen, holder) in holds(&names) {
            let remaining = holder.remaining.unwrap_or_default();
            let old = old.remove(&key);
            let granted = age(holder).and_then(|age| now.checked_sub(age));
            let row = Row {
                name: escape(seen.name.as_str()),
                holder: holder_name(holder),
                left: left(holder),
                remaining: holder.remaining,
                longest: old.as_ref().map_or(remaining, |old| old.longest.max(remaining)),
                waiters: seen.waiters,
                since: granted.or(old.as_ref().map(|old| old.since)).unwrap_or(now),
                is_older: granted.is_none() && old.map_or(!self.has_read, |old| old.is_older),
            };
            self.rows.insert(key, row);
        }
        (self.has_read, self.failure) = (true, None);
    }

    pub(super) fn on_key(&mut self, key: KeyEvent) -> bool {
        match (key.code, self.is_typing) {
            (KeyCode::Char('c'), _) if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return true;
            }
            (KeyCode::Char(_), _) if key.modifiers.contains(KeyModifiers::CONTROL) => {}
            (KeyCode::Enter, true) => self.is_typing = false,
            (KeyCode::Esc, _) => (self.is_typing, self.filter) = (false, String::new()),
            (KeyCode::Backspace, true) => _ = self.filter.pop(),
            (KeyCode::Char(typed), true) => self.filter.push(typed),
            (KeyCode::Char('q'), false) => return true,
            (KeyCode::Char('n'), false) => self.sort = Sort::Name,
            (KeyCode::Char('l'), false) => self.sort = Sort::Left,
            (KeyCode::Char('w'), false) => self.sort = Sort::Waiters,
            (KeyCode::Char('r'), false) => self.is_reversed = !self.is_reversed,
            (KeyCode::Char('/'), false) => self.is_typing = true,
            (KeyCode::Up, _) => self.offset = self.offset.saturating_sub(1),
            (KeyCode::Down, _) => self.offset += 1,
            (KeyCode::PageUp, _) => self.offset = self.offset.saturating_sub(self.page),
            (KeyCode::PageDown, _) => self.offset += self.page,
            _ => {}
        }
        false
    }

    pub(super) fn screen(&mut self, page: usize) -> Vec<&Row> {
        let count = self.matching().len();
        (self.page, self.offset) = (page, self.offset.min(count.saturating_sub(page)));
        self.matching().into_iter().skip(self.offset).take(page).collect()
    }

    fn matching(&self) -> Vec<&Row> {
        let filter = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        let matches = |row: &&Row| has(&row.name) || has(&row.holder);
        // In the order of names, also among rows that are equal below.
        let mut rows: Vec<_> = self.rows.values().filter(matches).collect();
        match self.sort {
            Sort::Name => {}
            Sort::Left => rows.sort_by_key(|row| row.remaining.unwrap_or(Duration::MAX)),
            Sort::Waiters => rows.sort_by_key(|row| Reverse(row.waiters)),
        }
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }

    pub(super) fn title(&self) -> String {
        let mut title = match self.has_read {
            true => format!("{} of {} holds by ", self.matching().len(), self.rows.len()),
            false => return "loading …".to_owned(),
        };
        title.push_str(match self.sort {
            Sort::Name => "name",
            Sort::Left => "time left",
            Sort::Waiters => "waiters",
        });
        if self.is_reversed {
            title.push_str(", reversed");
        }
        if self.is_typing || !self.filter.is_empty() {
            let cursor = if self.is_typing { "_" } else { "" };
            title.push_str(&format!("  /{}{cursor}", self.filter));
        }
        title
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::SystemTime;

    use lockwright::operator::Holder;
    use lockwright::{LockName, Token};

    use super::*;

    pub(crate) fn seen(name: &str, left: Option<u64>, waiters: u64) -> Inspection {
        let mut seen = Inspection::free(LockName::new(name).unwrap());
        let mut holder = Holder::new(Some(Token::from_bytes([1; 16])));
        holder.remaining = left.map(Duration::from_secs);
        seen.holders = vec![holder];
        seen.waiters = Some(waiters);
        seen
    }

    pub(crate) fn typed(state: &mut TopScreen, text: &str) {
        for letter in text.chars() {
            let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
            assert!(!state.on_key(code.into()));
        }
    }

    fn state() -> TopScreen {
        let mut state = TopScreen::default();
        let names = [("b", Some(20), 0), ("a", Some(30), 1), ("c", None, 2), ("ab", Some(10), 1)];
        let names = names.map(|(name, left, waiters)| seen(name, left, waiters));
        state.update(Ok(names.to_vec()), Instant::now());
        state
    }

    fn shown(state: &mut TopScreen, page: usize) -> String {
        let names: Vec<_> = state.screen(page).iter().map(|row| row.name.clone()).collect();
        names.join(" ")
    }

    #[test]
    fn keys_sort_and_reverse() {
        let mut state = state();
        for (keys, order) in [
            ("", "a ab b c"),
            ("l", "ab b a c"),
            ("r", "c a b ab"),
            ("w", "b ab a c"),
            ("r", "c a ab b"),
            ("n", "a ab b c"),
        ] {
            typed(&mut state, keys);
            assert_eq!(shown(&mut state, 9), order, "{keys}");
        }
    }

    #[test]
    fn filter_is_typed_until_enter() {
        let mut state = state();
        typed(&mut state, "/B");
        assert_eq!(shown(&mut state, 9), "ab b");
        assert_eq!(state.title(), "2 of 4 holds by name  /B_");
        typed(&mut state, "\nr");
        assert_eq!(shown(&mut state, 9), "b ab");
        assert_eq!(state.title(), "2 of 4 holds by name, reversed  /B");
        typed(&mut state, "/q");
        state.on_key(KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL));
        assert_eq!(shown(&mut state, 9), "", "while typing, q is text, and Ctrl-J isn't");
        state.on_key(KeyCode::Backspace.into());
        assert_eq!(shown(&mut state, 9), "b ab");
        state.on_key(KeyCode::Esc.into());
        assert_eq!(shown(&mut state, 9), "c b ab a");
    }

    #[test]
    fn scrolling_ends_at_the_last_row() {
        let mut state = state();
        for (key, rows) in [
            (KeyCode::Up, "a ab"),
            (KeyCode::Down, "ab b"),
            (KeyCode::PageDown, "b c"),
            (KeyCode::Down, "b c"),
            (KeyCode::Up, "ab b"),
            (KeyCode::PageUp, "a ab"),
        ] {
            shown(&mut state, 2);
            state.on_key(key.into());
            assert_eq!(shown(&mut state, 2), rows, "{key}");
        }
    }

    #[test]
    fn q_and_ctrl_c_end() {
        let mut state = state();
        assert!(state.on_key(KeyCode::Char('q').into()));
        state.on_key(KeyCode::Char('/').into());
        assert!(state.on_key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }

    #[test]
    fn only_holds_of_the_first_poll_may_be_older() {
        let mut state = TopScreen::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        state.update(Ok(vec![seen("a", Some(30), 0)]), start);
        state.update(Ok(vec![seen("a", Some(30), 0), seen("b", Some(30), 0)]), after(10));
        let rows = state.screen(9);
        let since: Vec<_> = rows.iter().map(|row| row.since(after(15))).collect();
        assert_eq!(since, [">15 s", "5 s"]);
    }

    #[test]
    fn known_time_of_the_grant_is_shown() {
        let mut state = TopScreen::default();
        let mut seen = seen("a", Some(30), 0);
        seen.holders[0].since = SystemTime::now().checked_sub(Duration::from_secs(120));
        let now = Instant::now();
        state.update(Ok(vec![seen]), now);
        assert_eq!(state.screen(9)[0].since(now), "2 min");
    }

    #[test]
    fn bar_is_full_at_the_longest_time_seen() {
        let mut state = TopScreen::default();
        for (left, bar) in [
            (Some(20), "██████████ 20 s"),
            (Some(30), "██████████ 30 s"),
            (Some(15), "█████░░░░░ 15 s"),
            (Some(0), "░░░░░░░░░░ 0 ms"),
            (None, "not known"),
        ] {
            state.update(Ok(vec![seen("a", left, 0)]), Instant::now());
            assert_eq!(state.screen(1)[0].left(), bar);
        }
    }

    #[test]
    fn failure_is_shown_until_the_next_poll() {
        let mut state = state();
        state.update(Err(Failure::usage("no\nanswer")), Instant::now());
        assert_eq!(state.failure.as_deref(), Some("no\\nanswer"));
        assert_eq!(shown(&mut state, 9), "a ab b c");
        state.update(Ok(Vec::new()), Instant::now());
        assert_eq!(shown(&mut state, 9), "");
        assert_eq!(state.failure, None);
    }
}

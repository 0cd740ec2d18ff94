use std::collections::BTreeMap;

use lockwright::operator::{Holder, Inspection};
use lockwright::{LockName, Locks};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::poller::{Poller, holds};
use super::print;
use crate::output::{event_line, time_of_day};
use crate::run::signals::Signals;
use crate::run::{ended_by, holder_name};
use crate::{Failure, Output, args, escape};

pub(super) async fn watch(
    locks: &Locks,
    what: &args::PollOptions,
    json: bool,
) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        ended = print_changes(locks, what, json) => ended.map(|()| 0),
        signal = signals.next_ending() => Ok(ended_by(signal)),
    }
}

async fn print_changes(locks: &Locks, what: &args::PollOptions, json: bool) -> Result<(), Failure> {
    let output = Output::new(json);
    let (mut poller, mut last, mut is_failing) = (Poller::new(locks, what), Vec::new(), false);
    while !is_output_closed() {
        let names = match poller.next().await? {
            Ok(names) => names,
            Err(failure) => {
                if !std::mem::replace(&mut is_failing, true) {
                    let sentence = format!("cannot read the locks, retrying: {}", failure.message);
                    output.report("unreadable", json!({ "message": failure.message }), &sentence);
                }
                continue;
            }
        };
        if std::mem::take(&mut is_failing) {
            output.report("readable", json!({}), "reading the locks works again");
        }
        let text: String = changes(&last, &names).iter().map(|change| line(change, json)).collect();
        // In another thread: a full pipe must not delay a signal.
        spawn_blocking(move || print(&text)).await.expect("printing doesn't panic")?;
        last = names;
    }
    Ok(())
}

fn is_output_closed() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut fds = [PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
    let closed = PollFlags::HUP | PollFlags::ERR;
    poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().intersects(closed)
}

#[derive(Debug)]
enum Change<'a> {
    Held(&'a LockName, &'a Holder),
    Ended(&'a LockName, &'a Holder),
    Broken(&'a LockName, &'a Holder),
    Waiters(&'a LockName, u64),
}

/// Returns the changes between two polls. A name without holders counts as without waiters.
fn changes<'a>(last: &'a [Inspection], new: &'a [Inspection]) -> Vec<Change<'a>> {
    let [before, now] = [last, new].map(|names| {
        let each = holds(names).map(|(key, seen, holder)| (key, (&seen.name, holder)));
        each.collect::<BTreeMap<_, _>>()
    });
    let mut changes = Vec::new();
    for (_, (name, holder)) in before.iter().filter(|(key, _)| !now.contains_key(key)) {
        changes.push(Change::Ended(name, holder));
    }
    for (key, (name, holder)) in &now {
        let old = before.get(key).map(|(_, old)| old);
        if old.is_none() {
            changes.push(Change::Held(name, holder));
        }
        if holder.broken.is_some() && old.is_none_or(|old| old.broken.is_none()) {
            changes.push(Change::Broken(name, holder));
        }
    }
    let waiters: BTreeMap<_, _> = last.iter().map(|seen| (&seen.name, seen.waiters)).collect();
    for seen in new {
        let old = waiters.get(&seen.name).copied().flatten().unwrap_or(0);
        if let Some(count) = seen.waiters.filter(|count| *count != old) {
            changes.push(Change::Waiters(&seen.name, count));
        }
    }
    changes
}

fn line(change: &Change<'_>, json: bool) -> String {
    let of_hold = |name, holder| json!({ "name": name, "holder": crate::json::holder(holder) });
    let (event, name, fields, sentence) = match *change {
        Change::Held(name, holder) => {
            ("held", name, of_hold(name, holder), format!("held by {}", describe(holder)))
        }
        Change::Ended(name, holder) => {
            let sentence = format!("no longer held by {}", describe(holder));
            ("hold_ended", name, of_hold(name, holder), sentence)
        }
        Change::Broken(name, holder) => {
            let by = escape(holder.broken.as_deref().unwrap_or_default());
            let sentence = format!("hold of {} broken by {by}", describe(holder));
            ("hold_broken", name, of_hold(name, holder), sentence)
        }
        Change::Waiters(name, count) => {
            let fields = json!({ "name": name, "waiters": count });
            ("waiters", name, fields, format!("{count} waiting"))
        }
    };
    if json {
        return event_line(event, fields);
    }
    format!("{} {}: {sentence}\n", time_of_day(), escape(name.as_str()))
}

fn describe(holder: &Holder) -> String {
    let fence = holder.fence.map_or_else(String::new, |fence| format!(", fence {fence}"));
    format!("{} ({}{fence})", holder_name(holder), holder.mode)
}

#[cfg(test)]
mod tests {
    use lockwright::{Fence, Token};

    use super::*;

    fn seen(name: &str, holders: &[u8], waiters: u64) -> Inspection {
        let mut seen = Inspection::free(LockName::new(name).unwrap());
        let holder = |number: &u8| {
            let mut holder = Holder::new(Some(Token::from_bytes([*number; 16])));
            holder.fence = Some(Fence::new(u64::from(*number)));
            holder
        };
        seen.holders = holders.iter().map(holder).collect();
        seen.waiters = Some(waiters);
        seen
    }

    fn lines(last: &[Inspection], new: &[Inspection]) -> Vec<String> {
        let changes = changes(last, new);
        let lines = changes.iter().map(|change| line(change, false));
        lines.map(|line| line.split_once(' ').unwrap().1.trim_end().to_owned()).collect()
    }

    #[test]
    fn each_begin_and_end_of_a_hold_is_a_change() {
        let [one, both] = [&[1][..], &[1, 2]].map(|holders| [seen("a", holders, 0)]);
        assert_eq!(lines(&[], &one), ["a: held by an unnamed client (exclusive, fence 1)"]);
        assert_eq!(lines(&one, &both), ["a: held by an unnamed client (exclusive, fence 2)"]);
        let ended = "a: no longer held by an unnamed client (exclusive, fence 2)";
        assert_eq!(lines(&both, &one), [ended]);
        assert_eq!(
            lines(&[seen("a", &[2], 0)], &[seen("a", &[1], 0), seen("b", &[3], 0)]),
            [
                ended,
                "a: held by an unnamed client (exclusive, fence 1)",
                "b: held by an unnamed client (exclusive, fence 3)",
            ]
        );
    }

    #[test]
    fn renewed_hold_is_no_change() {
        let last = [seen("a", &[1], 2)];
        let mut new = last.clone();
        new[0].holders[0].remaining = Some(std::time::Duration::from_secs(5));
        // On Redlock, a hold's fence can rise.
        new[0].holders[0].fence = Some(Fence::new(7));
        assert_eq!(lines(&last, &new), [""; 0]);
    }

    #[test]
    fn a_break_is_a_change_once() {
        let last = [seen("a", &[1], 0)];
        let mut new = last.clone();
        new[0].holders[0].broken = Some("anna@host:7: stuck\n".to_owned());
        let broken =
            "a: hold of an unnamed client (exclusive, fence 1) broken by anna@host:7: stuck\\n";
        assert_eq!(lines(&last, &new), [broken]);
        assert_eq!(lines(&new, &new), [""; 0]);
        assert_eq!(lines(&[], &new).len(), 2);
    }

    #[test]
    fn number_of_waiters_is_a_change() {
        let [none, two] = [0, 2].map(|waiters| [seen("a", &[1], waiters)]);
        assert_eq!(lines(&none, &two), ["a: 2 waiting"]);
        assert_eq!(lines(&two, &none), ["a: 0 waiting"]);
        assert_eq!(lines(&[], &two)[1..], ["a: 2 waiting"]);
    }

    #[test]
    fn holds_of_another_library_differ_by_their_fence() {
        let [last, new] = [1, 2].map(|holder| {
            let mut seen = seen("a", &[holder], 0);
            seen.holders[0].token = None;
            [seen]
        });
        assert_eq!(lines(&last, &new).len(), 2);
        assert_eq!(lines(&last, &last), [""; 0]);
    }
}

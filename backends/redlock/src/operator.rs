//! Inspection and breaks by operators. A hold is shown if it has a quorum, or could have one with
//! the votes of silent nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Cursor, ErrorKind, Fence, Holder, Inspection, LockName, Page,
    Result, Token,
};

use crate::errors::{NodeErrors, error};
use crate::fleet::{Fleet, ask_all};

const PATIENCE: Duration = Duration::from_secs(2);

/// Longer than `PATIENCE`, because a node scans all its keys for one page.
const LISTING_PATIENCE: Duration = Duration::from_secs(30);

const BREAK_TRIES: usize = 10;

pub(crate) async fn inspect(fleet: &Arc<Fleet>, name: &LockName) -> Result<Inspection> {
    let limit = PATIENCE.max(fleet.options.patience(PATIENCE));
    let wanted = name.clone();
    let ask = move |node: Arc<dyn crate::node::Node>| {
        let name = wanted.clone();
        async move { node.inspect(&name).await }
    };
    let is_enough = |answers: &[Option<Result<Inspection>>]| {
        let shown: Vec<&Inspection> =
            answers.iter().flatten().filter_map(|answer| answer.as_ref().ok()).collect();
        let free = shown.iter().filter(|shown| shown.holders.is_empty()).count();
        let has_quorum = |votes: &Votes| votes.nodes >= fleet.quorum;
        free >= fleet.quorum || votes(&shown).values().any(has_quorum)
    };
    let answers = ask_all(fleet, limit, ask, is_enough).await;
    let shown = enough(fleet, answers, "reported the holder")?;
    Ok(merge(fleet, name.clone(), &shown.iter().collect::<Vec<_>>()))
}

pub(crate) fn enough<T>(fleet: &Fleet, answers: Vec<Result<T>>, what: &str) -> Result<Vec<T>> {
    let mut errors = NodeErrors::default();
    let mut good = Vec::new();
    for (at, answer) in answers.into_iter().enumerate() {
        match answer.and_then(|answer| fleet.check_membership(at).map(|()| answer)) {
            Ok(answer) => good.push(answer),
            Err(error) => errors.push(fleet.address(at), error),
        }
    }
    if good.len() >= fleet.quorum {
        return Ok(good);
    }
    let kind = errors.hopeless(fleet.spare() + 1).unwrap_or(ErrorKind::Unavailable);
    let what = format!(
        "{} of {} nodes {what}, and {} are required",
        good.len(),
        fleet.nodes.len(),
        fleet.quorum
    );
    Err(errors.into_error(kind, &what))
}

#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct Votes {
    fence: Option<Fence>,
    nodes: usize,
}

fn votes(shown: &[&Inspection]) -> HashMap<Option<Token>, Votes> {
    let mut all: HashMap<Option<Token>, Votes> = HashMap::new();
    for holder in shown.iter().flat_map(|shown| &shown.holders) {
        let votes = all.entry(holder.token).or_default();
        votes.fence = votes.fence.max(holder.fence);
        votes.nodes += 1;
    }
    all
}

/// Returns the token that may have a quorum; of several, that with the highest fence, because nodes
/// that missed a release still show an ended hold.
fn holder(fleet: &Fleet, shown: &[&Inspection]) -> Option<Option<Token>> {
    let silent = fleet.nodes.len() - shown.len();
    let may_hold = votes(shown).into_iter().filter(|(_, it)| it.nodes + silent >= fleet.quorum);
    Some(may_hold.max_by(|(_, one), (_, other)| one.cmp(other))?.0)
}

fn merge(fleet: &Fleet, name: LockName, shown: &[&Inspection]) -> Inspection {
    let mut merged = Inspection::free(name);
    merged.fence = shown.iter().filter_map(|shown| shown.fence).max();
    let Some(token) = holder(fleet, shown) else { return merged };
    let mut holders: Vec<&Holder> = shown
        .iter()
        .flat_map(|shown| &shown.holders)
        .filter(|holder| holder.token == token)
        .collect();
    // The hold lasts until fewer than a quorum of nodes have it.
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.remaining.unwrap_or(Duration::MAX)));
    let last = holders[fleet.quorum.min(holders.len()) - 1];
    let mut holder = last.clone();
    holder.set_fence_and_since(holders.iter().filter_map(|holder| holder.fence).max());
    holder.broken = holders.iter().find_map(|holder| holder.broken.clone());
    merged.holders.push(holder);
    merged
}

pub(crate) async fn list(fleet: &Arc<Fleet>, prefix: &str, from: Option<Cursor>) -> Result<Page> {
    let limit = LISTING_PATIENCE;
    let prefix = prefix.to_owned();
    let ask = move |node: Arc<dyn crate::node::Node>| {
        let (prefix, from) = (prefix.clone(), from.clone());
        async move { node.list(&prefix, from).await }
    };
    let answers = ask_all(fleet, limit, ask, |_| false).await;
    let pages = enough(fleet, answers, "listed their names")?;
    let next = pages.iter().filter_map(|page| page.next.clone()).min_by(|a, b| a.0.cmp(&b.0));
    let mut names: BTreeMap<&str, Vec<&Inspection>> = BTreeMap::new();
    for shown in pages.iter().flat_map(|page| &page.names) {
        let name = shown.name.as_str();
        if next.as_ref().is_none_or(|Cursor(last)| name <= last.as_str()) {
            names.entry(name).or_default().push(shown);
        }
    }
    let answered = pages.len();
    let merged = names.into_values().map(|shown| {
        // On a node that doesn't list the name, the lock is free.
        let free = Inspection::free(shown[0].name.clone());
        let mut all = shown.clone();
        all.resize(answered, &free);
        merge(fleet, free.name.clone(), &all)
    });
    let names = merged.filter(|merged| !merged.holders.is_empty()).collect();
    Ok(Page { names, next })
}

pub(crate) async fn break_lock(
    fleet: &Arc<Fleet>,
    name: &LockName,
    seen: BreakTarget,
    how: BreakMode,
    by: &str,
    reason: &str,
) -> Result<Broken> {
    for _ in 0..BREAK_TRIES {
        let target = match seen {
            BreakTarget::Token(_) => seen,
            // All nodes must break the same hold.
            BreakTarget::Any => match inspect(fleet, name).await?.holders.first() {
                None => return Ok(Broken::NotHeld),
                Some(holder) => holder.token.map_or(BreakTarget::Any, BreakTarget::Token),
            },
        };
        let broken = break_one(fleet, name, target, how, by, reason).await?;
        if seen == BreakTarget::Any && broken == Broken::NotHeld {
            continue;
        }
        return Ok(broken);
    }
    Err(error(ErrorKind::Unavailable, "the holder changes too fast for a break; try again"))
}

async fn break_one(
    fleet: &Arc<Fleet>,
    name: &LockName,
    target: BreakTarget,
    how: BreakMode,
    by: &str,
    reason: &str,
) -> Result<Broken> {
    let limit = PATIENCE.max(fleet.options.patience(PATIENCE));
    let (name, by, reason) = (name.clone(), by.to_owned(), reason.to_owned());
    let ask = move |node: Arc<dyn crate::node::Node>| {
        let (name, by, reason) = (name.clone(), by.clone(), reason.clone());
        async move { node.break_lock(&name, target, how, &by, &reason).await }
    };
    let answers = ask_all(fleet, limit, ask, |_| false).await;
    // If a quorum answers, silent nodes can't keep the hold alive. With fewer answers, the hold may
    // survive, or may still be broken.
    let done = answers.iter().flatten().filter(|answer| **answer != Broken::NotHeld).count();
    let answers = enough(fleet, answers, "answered the break").map_err(|cause| {
        let kind = if cause.is_transient() { ErrorKind::Indeterminate } else { cause.kind() };
        error(kind, format!("{done} nodes broke the lock, but too few answered")).with_source(cause)
    })?;
    let silent = fleet.nodes.len() - answers.len();
    if done + silent < fleet.quorum {
        // No hold had a quorum: the broken votes are of a failed claim or a release in progress.
        return Ok(Broken::NotHeld);
    }
    answers.into_iter().map(Ok).try_fold(Broken::NotHeld, Broken::and)
}

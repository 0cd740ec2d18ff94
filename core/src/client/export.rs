//! The client's metrics for the recorder of the crate `metrics`, with the feature `metrics`.

use std::sync::Mutex;

use metrics::{Label, counter, gauge, histogram};

use crate::backend_util::lock;
use crate::{BootInstant, Reason, Renewal, RenewalOutcome};

use super::{Hold, Shared, ignore_panic};

fn labels(shared: &Shared, group: &'static str) -> Vec<Label> {
    let backend = Label::from_static_parts("backend", shared.backend.profile().backend);
    vec![backend, Label::from_static_parts("group", group)]
}

pub(crate) struct Waiting {
    group: &'static str,
    labels: Vec<Label>,
    begun: BootInstant,
}

impl Waiting {
    pub(crate) fn new(shared: &Shared, group: &'static str) -> Self {
        let labels = labels(shared, group);
        ignore_panic(|| gauge!("lockwright_waiting", labels.clone()).increment(1.0));
        Self { group, labels, begun: shared.clock.now() }
    }

    pub(crate) fn granted(self, hold: &Hold) {
        let waited = hold.clock().now().saturating_since(self.begun);
        let labels = self.labels.clone();
        ignore_panic(|| histogram!("lockwright_acquire_seconds", labels).record(waited));
        hold.uses.begin(hold, self.group);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let labels = std::mem::take(&mut self.labels);
        ignore_panic(|| gauge!("lockwright_waiting", labels).decrement(1.0));
    }
}

/// The uses of a hold by its guards: several if the hold is handed over or kept warm.
#[derive(Default)]
pub(crate) struct Uses(Mutex<Use>);

#[derive(Default, Clone, Copy)]
struct Use {
    group: &'static str,
    begun: Option<BootInstant>,
}

impl Uses {
    /// Begins a use. A re-entry belongs to the use in progress.
    pub(crate) fn begin(&self, hold: &Hold, group: &'static str) {
        let now = hold.clock().now();
        {
            let mut present = lock(&self.0);
            if present.begun.is_some() {
                return;
            }
            *present = Use { group, begun: Some(now) };
        }
        let labels = labels(&hold.shared, group);
        ignore_panic(|| gauge!("lockwright_held", labels).increment(1.0));
        // A loss before this call has ended no use.
        if !hold.looks_live(now) {
            self.end(hold);
        }
    }

    /// Ends the use in progress, if any.
    pub(crate) fn end(&self, hold: &Hold) {
        let Use { group, begun } = {
            let mut present = lock(&self.0);
            Use { begun: present.begun.take(), ..*present }
        };
        let Some(begun) = begun else { return };
        let labels = labels(&hold.shared, group);
        let time = hold.clock().now().saturating_since(begun);
        ignore_panic(|| gauge!("lockwright_held", labels.clone()).decrement(1.0));
        ignore_panic(|| histogram!("lockwright_hold_seconds", labels).record(time));
    }
}

fn labels_of(hold: &Hold, name: &'static str, value: &'static str) -> Vec<Label> {
    let group = lock(&hold.uses.0).group;
    let mut labels = labels(&hold.shared, group);
    labels.push(Label::from_static_parts(name, value));
    labels
}

pub(crate) fn lost(hold: &Hold, reason: Reason) {
    let reason = match reason {
        Reason::Expired => "expired",
        Reason::Broken => "broken",
        Reason::Unreachable => "unreachable",
        Reason::Gone => "gone",
        Reason::SessionEnded => "session_ended",
        Reason::HeldTooLong => "held_too_long",
        Reason::Superseded => "superseded",
    };
    let labels = labels_of(hold, "reason", reason);
    ignore_panic(|| counter!("lockwright_losses_total", labels).increment(1));
}

pub(crate) fn renewed(hold: &Hold, answer: Option<&Renewal>) {
    let outcome = match answer.map(|renewal| &renewal.outcome) {
        Some(RenewalOutcome::Renewed { .. }) => "renewed",
        Some(RenewalOutcome::NotHeld(_)) => "not_held",
        Some(RenewalOutcome::Indeterminate) | None => "indeterminate",
    };
    let labels = labels_of(hold, "outcome", outcome);
    ignore_panic(|| counter!("lockwright_renewals_total", labels).increment(1));
}

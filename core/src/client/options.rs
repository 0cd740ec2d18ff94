use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use serde::Deserialize;

use crate::duration::deserialize;
use crate::{BootInstant, Error, Identity, Mode, Owner, Profile, RenewalMode, Result};

use super::Shared;
use super::state::Settings;

fn check_keep_warm(time: Duration, profile: &Profile) -> Result<()> {
    if !profile.recalls {
        return Err(Error::unsupported("keeping a lock warm", profile));
    }
    if time.is_zero() {
        return Err(Error::invalid_input(
            "keep_warm of 0 s is too short; set a longer time, or remove it",
        ));
    }
    Ok(())
}

/// Default options of the requests for names with a prefix. An unset option has the client's
/// default, not a shorter prefix's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrefixOptions {
    /// The TTL: see [`Builder::ttl`](crate::Builder::ttl).
    #[serde(deserialize_with = "deserialize")]
    pub ttl: Option<Duration>,
    /// The wait limit: see [`Builder::wait`](crate::Builder::wait).
    #[serde(deserialize_with = "deserialize")]
    pub wait: Option<Duration>,
    /// The time for [`Request::keep_warm`](crate::Request::keep_warm).
    #[serde(deserialize_with = "deserialize")]
    pub keep_warm: Option<Duration>,
}

impl PrefixOptions {
    /// Returns the options of the longest prefix of `name`; without one, none is set.
    pub fn find(prefixes: &BTreeMap<String, Self>, name: &str) -> Self {
        longest(prefixes, name).copied().unwrap_or_default()
    }

    pub(super) fn or(self, client: &Defaults) -> Defaults {
        Defaults {
            ttl: self.ttl.unwrap_or(client.ttl),
            wait: self.wait.or(client.wait),
            keep_warm: self.keep_warm.or(client.keep_warm),
        }
    }
}

#[cold]
fn longest<'a, T>(prefixes: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
    // In the map's order, a longer prefix of `name` follows a shorter one.
    let found = prefixes.iter().rev().find(|(prefix, _)| name.starts_with(prefix.as_str()));
    found.map(|(_, options)| options)
}

/// The default options of a client's requests, or of those for names with a prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults {
    pub(crate) ttl: Duration,
    pub(crate) wait: Option<Duration>,
    pub(crate) keep_warm: Option<Duration>,
}

impl Defaults {
    pub(super) fn check(&self, what: &str, settings: &Settings, profile: &Profile) -> Result<()> {
        profile.check_ttl(what, self.ttl)?;
        settings.rules.check(self.ttl)?;
        self.keep_warm.map_or(Ok(()), |time| check_keep_warm(time, profile))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) renewal_mode: RenewalMode,
    pub(crate) owner: Option<Owner>,
    pub(crate) identity: Option<Arc<Identity>>,
    /// Without effect with `hold_times`.
    pub(crate) keep_warm: Option<Duration>,
    pub(crate) hold_times: Option<Box<HoldTimes>>,
    #[cfg(feature = "metrics")]
    pub(super) group: &'static str,
    pub(super) wait: Option<Duration>,
    // Boxed: the compiler moves a larger request by calls of `memcpy`.
    pub(super) retry: Option<Box<(u32, Duration)>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HoldTimes {
    pub(crate) max_hold: Option<Duration>,
    pub(crate) at_least: Option<Duration>,
    pub(crate) once_per: Option<Duration>,
}

/// The [`HoldTimes`] of a granted hold. Its `max_hold` has become an instant.
#[derive(Debug)]
pub(crate) struct HoldSchedule {
    pub(crate) max_hold_end: BootInstant,
    pub(crate) at_least: Duration,
    pub(crate) once_per: Duration,
    /// The number of renewals without a clear answer.
    pub(crate) unanswered: AtomicU32,
}

impl HoldTimes {
    fn check(self, mode: Mode, profile: &Profile) -> Result<()> {
        if self.at_least.or(self.once_per).is_none() {
            return Ok(());
        }
        if !profile.keeps_after_release {
            return Err(Error::unsupported("at_least or once_per", profile));
        }
        // SQL backends wouldn't free a reader's name before the TTL of an earlier renewal.
        if mode != Mode::Exclusive {
            return Err(Error::invalid_input(
                "a shared lock or permits can't be kept after their release (at_least, once_per); \
                 request an exclusive lock, or remove the setting",
            ));
        }
        let times = [("an at_least", self.at_least), ("a once_per", self.once_per)];
        times.into_iter().try_for_each(|(what, time)| match time {
            Some(time) => profile.check_ttl(what, time),
            None => Ok(()),
        })
    }
}

impl Options {
    pub(super) fn hold_times_mut(&mut self) -> &mut HoldTimes {
        self.hold_times.get_or_insert_default()
    }

    pub(crate) fn max_hold(&self) -> Option<Duration> {
        self.hold_times.as_ref()?.max_hold
    }

    pub(crate) fn keep_warm(&self) -> Option<Duration> {
        if self.hold_times.is_none() { self.keep_warm } else { None }
    }

    /// `name` lacks the client's namespace.
    #[inline(always)]
    pub(super) fn new(shared: &Shared, name: &str, mode: Mode) -> Self {
        let Settings { defaults, prefixes, .. } = &shared.settings;
        let Defaults { ttl, wait, keep_warm } = *match prefixes.is_empty() {
            true => defaults,
            false => longest(prefixes, name).unwrap_or(defaults),
        };
        Self {
            mode,
            ttl,
            renewal_mode: RenewalMode::Auto,
            owner: None,
            identity: None,
            keep_warm,
            hold_times: None,
            #[cfg(feature = "metrics")]
            group: "",
            wait,
            retry: None,
        }
    }

    pub(super) fn check(&self, shared: &Shared) -> Result<()> {
        let profile = shared.backend.profile();
        if !profile.modes.contains(self.mode) {
            let what = match self.mode {
                Mode::Exclusive => "exclusive locks",
                Mode::Shared => "shared (read) locks",
                Mode::Permits { .. } => "semaphores",
            };
            return Err(Error::unsupported(what, profile));
        }
        if let Mode::Permits { count, of } = self.mode
            && (count == 0 || count > of)
        {
            return Err(Error::invalid_input(format!(
                "cannot acquire {count} of {of} permits; request 1 to {of}"
            )));
        }
        if self.ttl != shared.settings.defaults.ttl {
            profile.check_ttl("a TTL", self.ttl)?;
            shared.settings.rules.check(self.ttl)?;
        }
        if let Some(time) = self.keep_warm() {
            check_keep_warm(time, profile)?;
        }
        if let Some(times) = &self.hold_times {
            times.check(self.mode, profile)?;
        }
        if self.retry.as_ref().is_some_and(|retry| retry.0 == 0) {
            return Err(Error::invalid_input("retry needs at least 1 try"));
        }
        Ok(())
    }

    pub(crate) fn schedule(&self, start: BootInstant) -> Option<Box<HoldSchedule>> {
        self.hold_times.as_ref().map(|times| {
            Box::new(HoldSchedule {
                max_hold_end: times.max_hold.map_or(BootInstant::FAR_FUTURE, |time| start + time),
                at_least: times.at_least.unwrap_or_default(),
                once_per: times.once_per.unwrap_or_default(),
                unanswered: AtomicU32::new(0),
            })
        })
    }
}

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::duration::deserialize;
use crate::{BootInstant, Error, Identity, Mode, Owner, Profile, RenewalMode, Result};

use super::Shared;

/// Checks that a hold can be kept warm for `time`.
pub(super) fn check_keep_warm(time: Duration, profile: &Profile) -> Result<()> {
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

/// Default options of the requests for names with a prefix. The client's apply to the unset ones.
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
    /// Returns the options of the longest prefix of `name`. Without one, no option is set.
    pub fn find(prefixes: &BTreeMap<String, Self>, name: &str) -> Self {
        // In the map's order, a longer prefix of `name` follows a shorter one.
        let longest = prefixes.iter().rev().find(|(prefix, _)| name.starts_with(prefix.as_str()));
        longest.map(|(_, options)| *options).unwrap_or_default()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) renewal_mode: RenewalMode,
    pub(crate) owner: Option<Owner>,
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) usage: Usage,
    pub(crate) retention: Option<Box<Retention>>,
    #[cfg(feature = "metrics")]
    pub(super) group: &'static str,
    pub(super) wait: Option<Duration>,
    pub(super) retry: Option<(u32, Duration)>,
}

/// How long the lock stays held after a release; zero if not set.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Retention {
    pub(crate) at_least: Duration,
    pub(crate) once_per: Duration,
}

impl Retention {
    fn check(self, mode: Mode, profile: &Profile) -> Result<()> {
        if !profile.keeps_after_release {
            return Err(Error::unsupported("at_least or once_per", profile));
        }
        // SQL backends wouldn't free a reader's name before the TTL of an earlier renewal.
        if mode != Mode::Exclusive {
            return Err(Error::invalid_input(
                "at_least and once_per need an exclusive lock; request it by mutex, or remove them",
            ));
        }
        profile.check_ttl("an at_least or once_per", self.at_least.max(self.once_per))
    }
}

/// A hold with a `max_hold` isn't kept warm, so one field has either time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Usage {
    Plain,
    AtMost(Duration),
    KeptWarm(Duration),
}

impl Options {
    pub(crate) fn max_hold(&self) -> Option<Duration> {
        match self.usage {
            Usage::AtMost(time) => Some(time),
            _ => None,
        }
    }

    pub(crate) fn keep_warm(&self) -> Option<Duration> {
        match self.usage {
            Usage::KeptWarm(time) => Some(time),
            _ => None,
        }
    }

    /// Returns the default options for `name`, which lacks the client's namespace.
    pub(super) fn new(shared: &Shared, name: &str, mode: Mode) -> Self {
        let settings = &shared.settings;
        let own = PrefixOptions::find(&settings.prefixes, name);
        Self {
            mode,
            ttl: own.ttl.unwrap_or(settings.ttl),
            renewal_mode: RenewalMode::Auto,
            owner: None,
            identity: None,
            usage: own.keep_warm.or(settings.keep_warm).map_or(Usage::Plain, Usage::KeptWarm),
            retention: None,
            #[cfg(feature = "metrics")]
            group: "",
            wait: own.wait.or(settings.wait),
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
        if self.ttl != shared.settings.ttl {
            profile.check_ttl("a TTL", self.ttl)?;
            shared.settings.rules.check(self.ttl)?;
        }
        if let Some(time) = self.keep_warm() {
            check_keep_warm(time, profile)?;
        }
        if let Some(retention) = self.retention.as_deref() {
            retention.check(self.mode, profile)?;
        }
        if self.retry.is_some_and(|(tries, _)| tries == 0) {
            return Err(Error::invalid_input("retry needs at least 1 try"));
        }
        Ok(())
    }

    pub(crate) fn keep_until(&self, start: BootInstant) -> BootInstant {
        self.max_hold().map_or(BootInstant::FAR_FUTURE, |time| start + time)
    }
}

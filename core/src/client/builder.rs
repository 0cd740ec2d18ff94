use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::backend_util::Jitter;
use crate::identity::check_text;
use crate::validity::Rules;
use crate::{
    Clock, DistributedLock, Error, Events, Identity, LockName, PrefixOptions, Profile, Result,
    TokenSource,
};

use super::Shared;
use super::in_runtime::InRuntime;
use super::locks::Locks;
use super::options::Defaults;
use super::state::Settings;

impl Locks {
    /// Creates a client with the default settings.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) outside a runtime.
    pub fn new(backend: impl DistributedLock) -> Result<Self> {
        Self::builder(backend).build()
    }

    /// Returns a client's builder.
    pub fn builder(backend: impl DistributedLock) -> Builder {
        let backend = shared_backend(backend);
        let ttl = Duration::from_secs(30);
        let range = backend.profile().ttl_range();
        Builder {
            settings: Settings {
                defaults: Defaults {
                    ttl: ttl.clamp(*range.start(), *range.end()),
                    wait: None,
                    keep_warm: None,
                },
                namespace: String::new(),
                rules: Rules::default(),
                tokens: TokenSource::default(),
                jitter: Jitter::default(),
                sweep: None,
                local_turns: Builder::LOCAL_TURNS,
                prefixes: BTreeMap::new(),
            },
            prefixes: BTreeMap::new(),
            backend,
            label: None,
            clock: Clock::boot(),
            runtime: None,
        }
    }
}

/// The settings of a client.
#[must_use = "a builder does nothing until it is built"]
#[derive(Debug)]
pub struct Builder {
    backend: Arc<dyn DistributedLock>,
    settings: Settings,
    prefixes: BTreeMap<String, PrefixOptions>,
    label: Option<String>,
    clock: Clock,
    runtime: Option<Handle>,
}

impl Builder {
    /// With more, a process could use up fences faster than one per microsecond, and fences of
    /// [`Clocked`](crate::Fencing::Clocked) backends would get ahead of the server's clock.
    const LOCAL_TURNS: u32 = 64;

    /// Sets the default TTL. If not set, it is 30 s, or the nearest supported TTL.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.defaults.ttl = ttl;
        self
    }

    /// Sets the default wait limit. By default, requests have no limit.
    pub fn wait(mut self, limit: Option<Duration>) -> Self {
        self.settings.defaults.wait = limit;
        self
    }

    /// Sets a prefix for every name on the server, such as `shop/`. Guards and inspections show
    /// names without the prefix.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.namespace = namespace.into();
        self
    }

    /// Sets the label that operators see.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Makes the client call [`Locks::sweep`] with `idle` about once a minute. One such client per
    /// server is enough.
    pub fn sweep(mut self, idle: Duration) -> Self {
        self.settings.sweep = Some(idle);
        self
    }

    /// Sets how many requests of this client may hold a lock in turn before the client releases it
    /// on the server, from 1 to 64. 1 disables this and `keep_warm`. The default is 64.
    ///
    /// A released hold passes to the client's next request for the name without a request to the
    /// server, with a larger fence, if another request of this client was waiting when the hold was
    /// requested. It passes on for at most one TTL, and to at most 8 requests once this client has
    /// noticed another client.
    ///
    /// - Both requests must be exclusive, renewed, of the same TTL, and without an owner,
    ///   `max_hold`, `at_least` or `once_per`. A campaign's hold isn't passed on.
    /// - More than half of the TTL must remain, and the server must have answered the last request
    ///   about the hold.
    /// - The backend must reserve [several fences](crate::Claim::fences).
    pub fn local_turns(mut self, turns: u32) -> Self {
        self.settings.local_turns = turns;
        self
    }

    /// Makes [`Request::keep_warm`](crate::Request::keep_warm) the default.
    pub fn keep_warm(mut self, time: Duration) -> Self {
        self.settings.defaults.keep_warm = Some(time);
        self
    }

    /// Sets the default options for names with this prefix, given without the namespace. For each
    /// name, only the longest matching prefix counts. [`build`](Self::build) checks their ranges.
    pub fn prefix(mut self, prefix: impl Into<String>, options: PrefixOptions) -> Self {
        self.prefixes.insert(prefix.into(), options);
        self
    }

    /// Sets the clock, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the rules for drift and margin.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.settings.rules = rules;
        self
    }

    /// Sets the client's runtime, which needs a timer. The default is the runtime in which `build`
    /// is called. After the runtime's end, no hold is renewed until the next request inside another
    /// runtime. On a current-thread runtime, no hold is renewed between `block_on` calls.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Sets the source of tokens, for tests.
    pub fn tokens(mut self, tokens: TokenSource) -> Self {
        self.settings.tokens = tokens;
        self
    }

    /// Sets the seed for the random variation of pauses.
    pub fn jitter_seed(mut self, seed: u64) -> Self {
        self.settings.jitter = Jitter::from_seed(seed);
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if a setting is out of range, or without
    /// a tokio runtime.
    pub fn build(self) -> Result<Locks> {
        let Self { backend, mut settings, prefixes, label, clock, runtime } = self;
        let defaults = settings.defaults;
        let with_defaults = |(prefix, own): (String, PrefixOptions)| (prefix, own.or(&defaults));
        settings.prefixes = prefixes.into_iter().map(with_defaults).collect();
        check(&settings, label.as_deref(), backend.profile()).map_err(Error::into_config)?;
        let runtime = match runtime {
            Some(runtime) => runtime,
            None => Handle::try_current().map_err(|error| {
                Error::invalid_config(
                    "a client needs a tokio runtime: make it inside of one, or give it one by \
                     .runtime(handle)",
                )
                .with_source(error)
            })?,
        };
        let identity = Identity::of_this_process(label.as_deref());
        let backend = InRuntime::new(backend, runtime.clone());
        let shared = Arc::new(Shared::new(backend, settings, identity, clock));
        let listening = Arc::downgrade(&shared);
        shared.backend.attach(Events::to(move |event| match listening.upgrade() {
            Some(shared) => {
                shared.on_event(event);
                true
            }
            None => false,
        }));
        shared.start_tasks(&runtime);
        Ok(Locks(shared))
    }
}

fn check(settings: &Settings, label: Option<&str>, profile: &Profile) -> Result<()> {
    check_text("label", label.unwrap_or_default(), Identity::LONGEST_LABEL)?;
    // The appended `x` permits an empty namespace, or a space at its end.
    LockName::new(format!("{}x", settings.namespace)).map_err(|error| {
        Error::invalid_input("the namespace is not a valid prefix of a name").with_source(error)
    })?;
    let Rules { drift_rate, drift_floor, margin_rate, .. } = settings.rules;
    if !(0.0..0.5).contains(&drift_rate) || !(0.0..0.5).contains(&margin_rate) {
        return Err(Error::invalid_input(format!(
            "the rates of drift ({drift_rate}) and margin ({margin_rate}) must be from 0 to below 0.5"
        )));
    }
    if drift_floor > Duration::from_secs(60) {
        return Err(Error::invalid_input("a drift floor above 60 s leaves nothing of most TTLs"));
    }
    if !(1..=Builder::LOCAL_TURNS).contains(&settings.local_turns) {
        return Err(Error::invalid_input(format!(
            "local_turns must be from 1 to {}, not {}",
            Builder::LOCAL_TURNS,
            settings.local_turns
        )));
    }
    for (prefix, defaults) in &settings.prefixes {
        let what = format!("the TTL for names with the prefix {prefix:?}");
        defaults.check(&what, settings, profile)?;
    }
    settings.defaults.check("the client's TTL", settings, profile)
}

fn shared_backend(backend: impl DistributedLock) -> Arc<dyn DistributedLock> {
    let mut backend = Some(backend);
    let shared = (&mut backend as &mut dyn Any).downcast_mut::<Option<Arc<dyn DistributedLock>>>();
    match shared.and_then(Option::take) {
        Some(shared) => shared,
        None => Arc::new(backend.expect("only a shared one was taken")),
    }
}

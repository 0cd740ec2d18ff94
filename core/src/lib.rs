//! The core of [Lockwright](https://docs.rs/lockwright): common types, the backend trait, and the client for all
//! backends.
//!
//! Users depend on the `lockwright` facade, which re-exports this crate. Backend authors depend on this crate
//! alone.
//!
//! | module | subject |
//! |---|---|
//! | [`backend`] | [`DistributedLock`], the trait of a backend |
//! | [`claim`] | requests to a backend, and its answers |
//! | [`client`] | [`Locks`], [`Request`], [`Guard`]: the user's API |
//! | [`clock`] | [`BootInstant`] and the clock that runs while the machine sleeps |
//! | [`validity`] | deadlines |
//! | [`profile`] | a backend's properties |
//! | [`fencing`] | rejection of late writes |
//! | [`operator`] | operators' requests |
//! | [`kit`] | common parts of backends |
#![forbid(unsafe_code)]

pub mod backend;
pub mod claim;
pub mod client;
pub mod clock;
pub mod duration;
pub mod error;
pub mod event;
pub mod fencing;
pub mod identity;
pub mod kit;
pub mod mode;
pub mod name;
pub mod operator;
pub mod profile;
pub mod redact;
pub mod token;
pub mod validity;

pub use async_trait::async_trait;
pub use backend::DistributedLock;
pub use claim::{
    Attempt, Busy, Claim, Ended, Granted, Renew, Renewal, RenewalOutcome, Settle, Upkeep, Wait,
};
pub use client::{
    Builder, Election, Guard, Handle, HoldState, Leader, Leadership, Locks, MetricsSnapshot,
    MultiGuard, MultiRequest, Observer, Owner, Permit, Request, Signal, Ticket,
};
pub use clock::{BootInstant, Clock};
pub use error::{Error, ErrorKind, Result, Step};
pub use event::{Event, Events, Reason};
pub use identity::Identity;
pub use mode::Mode;
pub use name::{LockName, NameMap};
pub use operator::{
    BreakHow, Broken, Cursor, Finding, Holder, Inspection, Page, Seen, Severity, Swept,
};
pub use profile::{Fault, Faults, Fencing, Modes, Order, Profile, Reach, WakeUp};
pub use token::{Fence, Token, TokenSource};

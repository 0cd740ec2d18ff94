//! The core of [Lockwright](https://docs.rs/lockwright): the vocabulary, the trait that a backend
//! implements, and the client that does everything else, once, for every backend.
//!
//! Users depend on the `lockwright` facade, which re-exports this crate. Backend authors depend on
//! this crate alone.
//!
//! | module | subject |
//! |---|---|
//! | [`backend`] | [`DistributedLock`], the trait a backend author writes |
//! | [`claim`] | what goes to a backend and what comes back |
//! | [`client`] | [`Locks`], [`Request`], [`Guard`]: what a user holds |
//! | [`clock`] | [`BootInstant`] and the clock that runs while the machine sleeps |
//! | [`validity`] | deadlines: the one place where they are computed |
//! | [`profile`] | what a backend promises, as data |
//! | [`fencing`] | refusing late writes where the protected thing lives |
//! | [`operator`] | what an operator sees and does |
//! | [`kit`] | parts that several backends are made of |
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

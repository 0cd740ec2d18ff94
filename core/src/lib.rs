//! The core of [Lockwright](https://docs.rs/lockwright): the client and the backend trait.
#![forbid(unsafe_code)]

mod backend;
pub mod backend_util;
mod claim;
mod client;
mod clock;
mod credentials;
pub mod duration;
mod error;
mod event;
pub mod fencing;
mod identity;
mod loss_reason;
mod mode;
mod name;
mod operator;
mod profile;
pub mod redact;
mod token;
pub mod validity;

pub use async_trait::async_trait;
pub use backend::DistributedLock;
pub use claim::{
    AcquireOutcome, Busy, Claim, Granted, ReleaseMode, ReleaseOutcome, Renew, Renewal, RenewalMode,
    RenewalOutcome, Wait,
};
pub use client::{
    Builder, Election, Guard, Held, HoldState, Leader, Leadership, Locks, MetricsSnapshot,
    MultiGuard, MultiRequest, Observer, Owner, Permit, PrefixOptions, Request, Signal, Ticket,
    TicketError,
};
pub use clock::{BootInstant, Clock};
pub use credentials::{CredentialProvider, Credentials};
pub use error::{Error, ErrorKind, Result, Step};
pub use event::{Event, Events};
pub use identity::Identity;
pub use loss_reason::Reason;
pub use mode::Mode;
pub use name::{LockName, NameMap};
pub use operator::{
    BreakMode, BreakTarget, Broken, Cursor, Finding, Holder, Inspection, Page, Severity,
    SweepReport,
};
pub use profile::{Fault, Faults, Fencing, Modes, Order, Profile, Scope, WakeUp};
pub use token::{Fence, Token, TokenSource};

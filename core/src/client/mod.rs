//! The client, the same for every backend.

mod acquire;
mod answer;
mod builder;
mod closing;
mod election;
mod guard;
mod held;
mod hold_state;
mod in_runtime;
mod locks;
mod metrics;
mod multi;
mod multi_guard;
mod options;
mod owner;
mod pending;
mod renewer;
mod request;
mod signal;
mod state;
mod sweeper;
mod ticket;
mod waiters;

pub use builder::Builder;
pub use election::{Election, Leader, Observer};
pub use guard::{Guard, Leadership, Permit, TicketError};
pub use held::Held;
pub use hold_state::HoldState;
pub use locks::Locks;
pub use metrics::MetricsSnapshot;
pub use multi::MultiRequest;
pub use multi_guard::MultiGuard;
pub use owner::Owner;
pub use request::Request;
pub use signal::Signal;
pub use ticket::Ticket;

//! The client, the same for every backend.
//!
//! | file | subject |
//! |---|---|
//! | `builder` | settings |
//! | `locks` | [`Locks`]: requests, and operators' calls |
//! | `request`, `options` | [`Request`]: a request and its options |
//! | `acquire` | the acquire operation: local turn, attempts, limits |
//! | `want`, `pending` | the settings of a request in the local queue, and its claim |
//! | `waiters` | waiting claims and their wake-ups |
//! | `renewer` | the renewal task |
//! | `closing` | turning requests away: the client was closed, or its runtime has ended |
//! | `multi`, `multi_guard` | requests for several names, and their guards |
//! | `election` | elections |
//! | `ticket` | transfers of a hold to another process |
//! | `jitter` | random variation of waits |
//! | `guard`, `held`, `signal`, `hold_state` | guards, and notifications |
//! | `state` | the types of a client's state, which refer to each other |
//! | `state/shared`, `state/events` | shared state, and the backend's events |
//! | `state/table` | turns and registry under one mutex |
//! | `state/turns` | the local queue, and reentrancy |
//! | `state/beside` | reentrancy of shared holders |
//! | `state/hold` | a hold's state: the term, the two stages of loss |
//! | `state/registry` | live holds, by their next due instant |
//! | `state/releasing` | the release of a hold |
//! | `state/background` | background releases and reconciliation |

mod acquire;
mod answer;
mod builder;
mod closing;
mod election;
mod guard;
mod held;
mod hold_state;
mod in_runtime;
mod jitter;
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
mod want;

pub use builder::Builder;
pub use election::{Election, Leader, Observer};
pub use guard::{Guard, Leadership, Permit};
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

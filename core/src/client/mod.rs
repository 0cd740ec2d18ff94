//! The client: everything that a lock user needs and that is the same for every backend.
//!
//! | file | subject |
//! |---|---|
//! | `builder` | the settings of a client |
//! | `locks` | [`Locks`]: what a user makes requests with, and what an operator asks |
//! | `request` | [`Request`]: one request and its options |
//! | `acquire` | a request's way to a hold: local turn, attempts, limits |
//! | `turns` | the in-process queue, and reentrancy |
//! | `beside` | reentrancy of those who take no turns: readers, permits |
//! | `parking` | waiting claims, and what wakes them |
//! | `hold` | one hold's state: the term, the two stages of loss |
//! | `registry` | all live holds, by the instant at which something is due |
//! | `keeper` | the one task: renews, tells losses, starts background releases |
//! | `closing` | turning requests away: the client was closed, or its runtime has ended |
//! | `multi`, `together` | many names at once: asking for them, and holding them |
//! | `election` | who leads |
//! | `ticket` | a hold that moves to another process |
//! | `jitter` | chance in the lengths of waits |
//! | `background` | releases that nobody waits for, and settling |
//! | `guard`, `signal` | what a user holds |

mod acquire;
mod answer;
mod background;
mod beside;
mod builder;
mod closing;
mod election;
mod guard;
mod hold;
mod jitter;
mod keeper;
mod locks;
mod metrics;
mod multi;
mod owner;
mod parking;
mod registry;
mod request;
mod shared;
mod signal;
mod sweeper;
mod table;
mod ticket;
mod together;
mod turns;

pub use builder::Builder;
pub use election::{Election, Leader, Observer};
pub use guard::{Guard, Leadership, Permit};
pub use locks::Locks;
pub use metrics::MetricsSnapshot;
pub use multi::MultiRequest;
pub use owner::Owner;
pub use request::{Handle, Request};
pub use signal::{HoldState, Signal};
pub use ticket::Ticket;
pub use together::MultiGuard;

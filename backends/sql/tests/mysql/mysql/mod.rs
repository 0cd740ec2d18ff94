//! Named after the server, as all of these need one.

mod connecting;
mod doctor;
mod faults;
mod rules;
mod schema;
mod sweeping;

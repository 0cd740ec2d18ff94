//! Named after the server, which all tests here need.

mod connecting;
mod doctor;
mod faults;
mod rules;
mod schema;
mod sweeping;

mod connecting;
mod doctor;
mod faults;
mod rules;
mod schema;
mod sweeping;

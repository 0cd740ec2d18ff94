mod connecting;
mod doctor;
mod faults;
mod pooler;
mod rules;
mod schema;
mod sweeping;
mod waking;

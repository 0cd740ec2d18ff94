mod exclusion;
mod faults;
mod interop;
mod operator;
mod pooler;
mod processes;
mod waiting;

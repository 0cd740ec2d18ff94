mod exclusion;
mod faults;
mod interop;
mod operator;
mod processes;
mod waiting;

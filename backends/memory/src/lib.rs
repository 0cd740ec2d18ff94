//! Locks inside one process: the executable specification of every Lockwright backend.
#![forbid(unsafe_code)]

//! SQL backends of Lockwright: SQLite, and later PostgreSQL and MySQL.
#![forbid(unsafe_code)]

//! Tests of holds in sessions of real servers, beyond the conformance suite.
#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "each server runs the same tests")]

/// Makes a test of each function `$rule`, which runs in each mode on one server from `$start`.
macro_rules! in_each_mode {
    ($start:ident; $($rule:ident),*) => {
        in_each_mode!($start, MODES; $($rule),*);
    };
    ($start:ident, $modes:ident; $($rule:ident),*) => {
        mod in_each_mode {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $rule() {
                    let server = super::$start();
                    for mode in $crate::support::$modes {
                        super::$rule(&server, mode).await;
                    }
                }
            )*
        }
    };
}

// Because of `#[path]`, submodules of these files are in this folder.
#[path = "mariadb.rs"]
mod mariadb;
#[path = "mysql.rs"]
mod mysql;
#[path = "postgres.rs"]
mod postgres;
#[path = "../support/mod.rs"]
mod support;

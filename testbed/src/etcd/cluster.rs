use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::options::{ADMIN, Options};
use crate::{Error, Program, Result, ensemble};

pub(super) const PACKAGE: &str = "etcd-client";

#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) token: String,
    pub(super) options: Options,
    pub(super) program: Program,
    pub(super) endpoints: Mutex<Vec<String>>,
    pub(super) has_users: AtomicBool,
}

impl Cluster {
    pub(super) fn add_endpoint(&self, endpoint: String) {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).push(endpoint);
    }

    pub(super) fn endpoints(&self) -> Vec<String> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn run(&self, endpoints: &[String], arguments: &[&str]) -> Result<String> {
        let mut program = Program::new("etcdctl", PACKAGE)
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", endpoints.join(",")))
            .args(self.options.login());
        if self.has_users.load(Ordering::SeqCst) {
            let (user, password) = ADMIN;
            program = program.arg(format!("--user={user}:{password}"));
        }
        program.args(arguments.iter().copied()).run(Path::new("/"), "")
    }

    /// Retries, because commands fail during elections.
    pub(super) fn decide(&self, endpoints: &[String], arguments: &[&str]) -> Result<String> {
        let mut last = Error::new("nothing");
        let answer = ensemble::wait_until(&arguments.join(" "), || {
            self.run(endpoints, arguments).map_err(|error| last = error).ok()
        });
        answer.map_err(|error| Error::new(format!("{error}: {last}")))
    }
}

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::options::{ADMIN, Options};
use crate::{Error, Program, Result, ensemble};

pub(super) const PACKAGE: &str = "etcd-client";

#[derive(Debug)]
pub(super) struct Control {
    flags: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    endpoints: Vec<String>,
    has_users: bool,
}

impl Control {
    pub(super) fn new(options: &Options) -> Self {
        Self { flags: options.login(), state: Mutex::default() }
    }

    pub(super) fn add_endpoint(&self, endpoint: String) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).endpoints.push(endpoint);
    }

    pub(super) fn set_has_users(&self, has_users: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).has_users = has_users;
    }

    pub(super) fn endpoints(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).endpoints.clone()
    }

    pub(super) fn run(&self, endpoints: &[String], arguments: &[&str]) -> Result<String> {
        self.program(endpoints).args(arguments.iter().copied()).run(Path::new("/"), "")
    }

    /// Like [`Control::run`], with retries because commands fail during elections.
    pub(super) fn decide(&self, endpoints: &[String], arguments: &[&str]) -> Result<String> {
        let mut last = Error::new("nothing");
        let answer = ensemble::wait_until(&arguments.join(" "), || {
            self.run(endpoints, arguments).map_err(|error| last = error).ok()
        });
        answer.map_err(|error| Error::new(format!("{error}: {last}")))
    }

    fn program(&self, endpoints: &[String]) -> Program {
        let mut program = Program::new("etcdctl", PACKAGE)
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", endpoints.join(",")))
            .args(self.flags.iter().cloned());
        if self.state.lock().unwrap_or_else(PoisonError::into_inner).has_users {
            let (user, password) = ADMIN;
            program = program.arg(format!("--user={user}:{password}"));
        }
        program
    }
}

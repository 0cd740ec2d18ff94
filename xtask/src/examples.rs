use std::process::Command;

use crate::folders;
use crate::process::{self, Finished, cargo};

pub(crate) struct Example {
    pub(crate) name: &'static str,
    pub(crate) args: &'static [&'static str],
    pub(crate) ends_well: bool,
    pub(crate) closing: &'static str,
    /// True if the example needs a server or a feature of the tests. `--quick` skips it.
    pub(crate) needs_test_features: bool,
}

pub(crate) const ALL: &[Example] = &[
    flash_sale(&[]),
    flash_sale(&["--kill"]),
    flash_sale_on(&["--on", "redis", "--kill"]),
    flash_sale_on(&["--on", "sentinel"]),
    flash_sale_on(&["--on", "cluster"]),
    flash_sale_on(&["--on", "redlock", "--kill"]),
    flash_sale_on(&["--on", "postgres", "--kill"]),
    flash_sale_on(&["--on", "postgres/session", "--kill"]),
    flash_sale_on(&["--on", "postgres/row"]),
    flash_sale_on(&["--on", "mariadb", "--kill"]),
    flash_sale_on(&["--on", "mariadb/session", "--kill"]),
    flash_sale_on(&["--on", "mariadb/row"]),
    flash_sale_on(&["--on", "etcd", "--kill"]),
    flash_sale_on(&["--on", "zookeeper", "--kill"]),
    Example {
        ends_well: false,
        closing: "require = [\"strict_fencing\"]: this backend can't promise it",
        ..flash_sale_on(&["--on", "redis", "--require", "fencing", "--require", "strict_fencing"])
    },
    embedded("mutex", "10 sold, 0 left"),
    embedded("read_write", "a reader during a write: refused"),
    embedded("semaphore", "at most 3 at a time"),
    embedded("election", "each led once"),
    embedded("cron", "another machine makes the report"),
    embedded("axum_handler", "account 42 changed with fence 1"),
    embedded("testing", "unreachable: memory"),
    embedded("leader", "another process leads"),
    embedded("late_write", "the late write was refused"),
    embedded("rate_limit", "never more than 3 at a time"),
    embedded("idempotent_consumer", "each of 40 messages took effect exactly once"),
    embedded("idempotent_api", "each of 20 payments was charged exactly once"),
    embedded("order_grabbing", "one winner for each of 10 orders"),
    Example { name: "migrate", closing: "moved without a gap", ..flash_sale_on(&[]) },
    Example { name: "metrics", closing: LOSSES, ..flash_sale_on(&[]) },
    Example { name: "stock_table", closing: "exactly 50 sold", ..flash_sale_on(&[]) },
];

const LOSSES: &str =
    r#"lockwright_losses_total{backend="memory",group="reports",reason="held_too_long"} 1"#;

impl Example {
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.name, self.args.join(" ")).trim().to_owned()
    }

    pub(crate) fn run(&self) -> (&Self, Finished) {
        let name = self.title().replace(|c: char| !c.is_alphanumeric(), "-");
        let limit =
            if self.needs_test_features { process::RUNNING } else { process::WITH_BUILDING };
        (self, process::run(&format!("example-{name}"), self.command(), limit, |_| {}))
    }

    fn command(&self) -> Command {
        let mut command = if self.needs_test_features {
            let mut command =
                Command::new(folders::target().join("debug/examples").join(self.name));
            command.current_dir(folders::root());
            command
        } else {
            cargo(&["run", "--quiet", "--package", "lockwright", "--example", self.name, "--"])
        };
        command.args(self.args);
        command
    }
}

pub(crate) fn build_embedded() -> Command {
    building(&["build", "--package", "lockwright"], |example| !example.needs_test_features)
}

pub(crate) fn build() -> Command {
    building(&["build", "--workspace", "--all-features"], |example| example.needs_test_features)
}

fn building(args: &[&str], wanted: impl Fn(&&Example) -> bool) -> Command {
    let mut command = cargo(args);
    let mut names: Vec<&str> = ALL.iter().filter(wanted).map(|example| example.name).collect();
    names.dedup();
    for name in names {
        command.args(["--example", name]);
    }
    command
}

const fn embedded(name: &'static str, closing: &'static str) -> Example {
    Example { name, args: &[], ends_well: true, closing, needs_test_features: false }
}

const fn flash_sale(args: &'static [&'static str]) -> Example {
    Example { args, ..embedded("flash_sale", "exactly 100 sold") }
}

const fn flash_sale_on(args: &'static [&'static str]) -> Example {
    Example { needs_test_features: true, ..flash_sale(args) }
}

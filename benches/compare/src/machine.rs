use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::process::Command;

use crate::results::Machine;

pub(crate) fn machine() -> Machine {
    let field = |path: &str, name: &str| {
        let text = read_to_string(path).unwrap_or_default();
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
        line.map(|value| value.trim().to_owned())
    };
    let kibibytes = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    Machine {
        processor: field("/proc/cpuinfo", "model name")
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: kibibytes.unwrap_or(0) * 1024,
        kernel: said_by("uname", &["-sr"]),
    }
}

pub(crate) fn versions() -> BTreeMap<String, String> {
    BTreeMap::from([(
        "rustc".to_owned(),
        said_by("rustc", &["--version"]).trim_start_matches("rustc ").to_owned(),
    )])
}

pub(crate) fn date() -> String {
    said_by("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"])
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

//! Tests of the proxy, and of servers, which end with their Rust value or test process.

mod process;
mod proxy;
mod servers;

use lockwright_testbed::wait;

fn runs(pid: u32) -> bool {
    // A zombie has ended, but its parent hasn't waited for it.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit(')').next().map(|rest| !rest.trim_start().starts_with('Z')))
        .unwrap_or(false)
}

fn assert_gone(pid: u32) {
    assert!(wait::until(wait::LIMIT, || (!runs(pid)).then_some(())).is_some(), "{pid} lives on");
}

//! Tests of the proxy, and of the servers' lifetime.

mod process;
mod proxy;
mod servers;

use lockwright_testbed::descendants::has_ended;
use lockwright_testbed::wait;

fn assert_gone(pid: u32) {
    assert!(wait::until(wait::LIMIT, || has_ended(pid).then_some(())).is_some(), "{pid} lives on");
}

//! Free loopback ports.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range from which the kernel takes the ports of outgoing connections: otherwise one of
/// those could sit on a server's port while the server restarts.
const FIRST: u32 = 15_000;
const COUNT: u32 = 15_000;

/// A loopback port that nobody listens on.
///
/// Another process may still take it before the server does: whoever starts a server tries again
/// with another one.
///
/// # Panics
/// When none of them is free.
pub fn free() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Test processes that run at the same time begin at different places.
    let start = std::process::id().wrapping_mul(331);
    (0..COUNT)
        .map(|_| {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            (FIRST + start.wrapping_add(step) % COUNT) as u16
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a loopback port is free")
}

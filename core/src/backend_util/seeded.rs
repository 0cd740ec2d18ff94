//! Repeatable random numbers, without the platform's generator.

use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the next number of the sequence: SplitMix64 (Steele, Lea and Flood, 2014).
pub fn next_random(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut bits = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

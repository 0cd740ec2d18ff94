//! Asserts the allocations and bytes of a hold. See `benches/README.md`.
#![allow(missing_docs)]
#![allow(unsafe_code)] // for the counting allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lockwright::Locks;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: all calls are forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        BYTES.fetch_add(size, Relaxed);
        BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const HOLDS: usize = 100_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let locks = lockwright::connect("memory:").await.unwrap();
    allocations(&locks).await;
    bytes(&locks).await;
}

async fn acquire_and_release(locks: &Locks) {
    let guard = locks.mutex(black_box("orders/42")).acquire().await.unwrap();
    black_box(&guard);
    guard.release().await.unwrap();
}

async fn allocations(locks: &Locks) {
    const ROUNDS: usize = 1_000;
    for _ in 0..ROUNDS {
        acquire_and_release(locks).await;
    }
    let before = ALLOCATIONS.load(Relaxed);
    for _ in 0..ROUNDS {
        acquire_and_release(locks).await;
    }
    // Tenths of allocations: the random source and tables allocate only in some rounds.
    let tenths = (ALLOCATIONS.load(Relaxed) - before) * 10 / ROUNDS;
    println!("allocations per acquire + release: {}.{} (at most 6)", tenths / 10, tenths % 10);
    assert!(tenths <= 60);
}

async fn bytes(locks: &Locks) {
    let mut guards = Vec::with_capacity(HOLDS);
    let before = BYTES.load(Relaxed);
    for i in 0..HOLDS {
        guards.push(locks.mutex(format!("orders/{i}")).acquire().await.unwrap());
    }
    let per_hold = (BYTES.load(Relaxed) - before) / HOLDS;
    println!("bytes per hold, the backend's own included: {per_hold} (at most 500)");
    assert!(per_hold <= 500);
}

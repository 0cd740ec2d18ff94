//! What a hold may cost: allocations and bytes, which don't depend on the machine's mood and are
//! asserted, and the share of a core that 100,000 holds take, and the ratio to a plain mutex, which
//! are measured and printed. `cargo bench --bench budget`; see `benches/README.md` for figures.
#![allow(missing_docs)]
#![allow(unsafe_code)] // The counting allocator: there is no other way to count.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lockwright::{Guard, Locks};
use rustix::time::{ClockId, clock_gettime};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        BYTES.fetch_add(size, Relaxed);
        BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const HOLDS: usize = 100_000;

fn main() {
    // `cargo test --benches` runs benches with this, once and briefly.
    let brief = std::env::args().any(|argument| argument == "--test");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let locks = lockwright::connect("memory:").await.unwrap();
        allocations(&locks).await;
        let guards = bytes(&locks).await;
        if !brief {
            share_of_a_core(Duration::from_secs(25)).await;
        }
        drop(guards);
        locks.close().await;
        if !brief {
            ratio().await;
        }
    });
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
    // In tenths: the random source and the tables allocate now and then.
    let tenths = (ALLOCATIONS.load(Relaxed) - before) * 10 / ROUNDS;
    println!("allocations per acquire + release: {}.{} (at most 6)", tenths / 10, tenths % 10);
    assert!(tenths <= 60);
}

async fn bytes(locks: &Locks) -> Vec<Guard> {
    let mut guards = Vec::with_capacity(HOLDS);
    let before = BYTES.load(Relaxed);
    for i in 0..HOLDS {
        guards.push(locks.mutex(format!("orders/{i}")).acquire().await.unwrap());
    }
    let per_hold = (BYTES.load(Relaxed) - before) / HOLDS;
    println!("bytes per hold, the backend's own included: {per_hold} (at most 500)");
    assert!(per_hold <= 500);
    guards
}

async fn share_of_a_core(time: Duration) {
    let cpu = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let (before, start) = (cpu(), Instant::now());
    tokio::time::sleep(time).await;
    let share = (cpu() - before) / start.elapsed().as_secs_f64() * 100.0;
    println!("{HOLDS} holds renewed at a TTL of 30 s: {share:.2} % of a core (at most 1 %)");
}

/// The two in turn, many times, so that both see the same moods of the machine.
async fn ratio() {
    const ROUNDS: usize = 101;
    const TIMES: u32 = 2_000;
    let locks = lockwright::connect("memory:").await.unwrap();
    let mutex = tokio::sync::Mutex::new(());
    let names: Mutex<HashMap<String, u64>> = Mutex::default();
    let mut ratios = Vec::with_capacity(ROUNDS);
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for i in 0..TIMES {
            let guard = mutex.lock().await;
            names.lock().unwrap().insert(black_box("orders/42").to_owned(), u64::from(i));
            black_box(&guard);
            names.lock().unwrap().remove(black_box("orders/42"));
        }
        let floor = start.elapsed();
        let start = Instant::now();
        for _ in 0..TIMES {
            acquire_and_release(&locks).await;
        }
        let our = start.elapsed();
        ratios.push(our.as_secs_f64() / floor.as_secs_f64());
        ours.push((our / TIMES).as_nanos());
        floors.push((floor / TIMES).as_nanos());
    }
    ratios.sort_unstable_by(f64::total_cmp);
    ours.sort_unstable();
    floors.sort_unstable();
    println!(
        "acquire + release: {} ns, tokio mutex + hash map: {} ns; ratio {:.2} (p5 {:.2}, p95 {:.2}; at most 5)",
        ours[ROUNDS / 2],
        floors[ROUNDS / 2],
        ratios[ROUNDS / 2],
        ratios[ROUNDS / 20],
        ratios[ROUNDS * 19 / 20],
    );
}

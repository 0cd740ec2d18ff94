//! Asserts the allocations and bytes of a hold, and prints its times. See `benches/README.md`.
#![allow(missing_docs)]
#![allow(unsafe_code)] // for the counting allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockwright::{Guard, Locks};
use rustix::time::{ClockId, clock_gettime};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// False during time measurements, because counting takes time.
static COUNTS: AtomicBool = AtomicBool::new(true);

struct Counting;

// SAFETY: all calls are forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            ALLOCATIONS.fetch_add(1, Relaxed);
            BYTES.fetch_add(layout.size(), Relaxed);
        }
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if COUNTS.load(Relaxed) {
            BYTES.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            ALLOCATIONS.fetch_add(1, Relaxed);
            BYTES.fetch_add(size, Relaxed);
            BYTES.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: the caller upholds the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const HOLDS: usize = 100_000;

fn main() {
    // `cargo bench` passes `--bench`. `cargo test` doesn't: it only checks that benches run.
    let brief = !std::env::args().any(|argument| argument == "--bench");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let locks = lockwright::connect("memory:").await.unwrap();
        allocations(&locks).await;
        let guards = bytes(&locks).await;
        COUNTS.store(false, Relaxed);
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
    // In tenths, because the random source and the tables allocate only in some rounds.
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

#[derive(Default)]
struct Baselines {
    mutex: tokio::sync::Mutex<()>,
    notes: Mutex<HashMap<String, u64>>,
    table: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Baselines {
    async fn mutex_beside_a_map(&self) {
        let guard = self.mutex.lock().await;
        self.notes.lock().unwrap().insert(black_box("orders/42").to_owned(), 1);
        black_box(&guard);
        self.notes.lock().unwrap().remove(black_box("orders/42"));
    }

    async fn mutexes_in_a_map(&self) {
        let name = black_box("orders/42");
        let mutex = Arc::clone(self.table.lock().unwrap().entry(name.to_owned()).or_default());
        let guard = mutex.lock_owned().await;
        black_box(&guard);
        drop(guard);
        let mut table = self.table.lock().unwrap();
        if table.get(name).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            table.remove(name);
        }
    }
}

/// Measures the client and the baselines in turn, so the machine's load affects all of them.
async fn ratio() {
    const ROUNDS: usize = 101;
    const TIMES: u32 = 2_000;
    let locks = lockwright::connect("memory:").await.unwrap();
    let baselines = Baselines::default();
    let (mut ours, mut beside, mut table) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        beside.push(time(TIMES, || baselines.mutex_beside_a_map()).await);
        ours.push(time(TIMES, || acquire_and_release(&locks)).await);
        table.push(time(TIMES, || baselines.mutexes_in_a_map()).await);
    }
    println!("acquire + release: {:.0} ns", spread(ours.iter().copied())[1]);
    for (what, baseline) in
        [("a tokio mutex and a hash map", beside), ("a hash map of tokio mutexes", table)]
    {
        let [low, median, high] =
            spread(ours.iter().zip(&baseline).map(|(our, baseline)| our / baseline));
        println!(
            "  {median:.2} x {what} of {:.0} ns (p5 {low:.2}, p95 {high:.2})",
            spread(baseline.iter().copied())[1],
        );
    }
}

async fn time<F: Future<Output = ()>>(times: u32, mut call: impl FnMut() -> F) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        call().await;
    }
    start.elapsed().as_nanos() as f64 / f64::from(times)
}

fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    [values.len() / 20, values.len() / 2, values.len() * 19 / 20].map(|at| values[at])
}

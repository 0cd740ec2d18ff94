//! The client's own path, on the memory backend: what Lockwright costs where the server costs
//! nothing. `cargo bench --bench client`; see `benches/README.md` for figures.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Mutex;

use criterion::{Criterion, criterion_group, criterion_main};
use lockwright::{Guard, Locks, Owner};
use tokio::runtime::Runtime;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn client(runtime: &Runtime) -> Locks {
    runtime.block_on(lockwright::connect("memory:")).unwrap()
}

/// What is to be compared with: a tokio mutex, and a hash map in which a name is noted and struck
/// off, as anybody would write it who needs named locks in one process.
fn floor(criterion: &mut Criterion) {
    let runtime = runtime();
    let mutex = tokio::sync::Mutex::new(());
    let names: Mutex<HashMap<String, u64>> = Mutex::default();
    let mut count = 0;
    criterion.bench_function("floor: tokio mutex + hash map", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let guard = mutex.lock().await;
                count += 1;
                names.lock().unwrap().insert(black_box("orders/42").to_owned(), count);
                black_box(&guard);
                names.lock().unwrap().remove(black_box("orders/42"));
            });
        });
    });
}

fn acquire_and_release(criterion: &mut Criterion) {
    let runtime = runtime();
    let locks = client(&runtime);
    criterion.bench_function("acquire + release, watchdog on", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let guard = locks.mutex(black_box("orders/42")).acquire().await.unwrap();
                black_box(&guard);
                guard.release().await.unwrap();
            });
        });
    });
}

fn enter_again(criterion: &mut Criterion) {
    let runtime = runtime();
    let locks = client(&runtime);
    let owner = Owner::new();
    let _held = runtime.block_on(locks.mutex("orders/42").reentrant(&owner).acquire()).unwrap();
    criterion.bench_function("re-entry", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let guard = locks.mutex("orders/42").reentrant(&owner).acquire().await.unwrap();
                guard.release().await.unwrap();
            });
        });
    });
}

fn check(criterion: &mut Criterion) {
    let runtime = runtime();
    let locks = client(&runtime);
    let guard = runtime.block_on(locks.mutex("orders/42").acquire()).unwrap();
    criterion.bench_function("check", |bencher| bencher.iter(|| guard.check().unwrap()));
}

fn among_many(criterion: &mut Criterion) {
    let runtime = runtime();
    let locks = client(&runtime);
    let _held: Vec<Guard> = runtime.block_on(async {
        let mut held = Vec::with_capacity(100_000);
        for i in 0..100_000 {
            held.push(locks.mutex(format!("held/{i}")).acquire().await.unwrap());
        }
        held
    });
    criterion.bench_function("acquire + release beside 100,000 holds", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let guard = locks.mutex(black_box("orders/42")).acquire().await.unwrap();
                guard.release().await.unwrap();
            });
        });
    });
}

criterion_group!(benches, floor, acquire_and_release, enter_again, check, among_many);
criterion_main!(benches);

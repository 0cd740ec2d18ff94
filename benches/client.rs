//! The client's own cost, on the memory backend. See `benches/README.md`.
//!
//! Criterion measures one function after the other, so ratios between functions vary with the
//! machine's load.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

use std::collections::HashMap;
use std::future::poll_fn;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use criterion::{Criterion, criterion_group, criterion_main};
use lockwright::backend::backend_util::percent;
use lockwright::{Guard, LockName, Locks, Owner};
use tokio::runtime::Runtime;

const NAME: &str = "orders/42";

const TASKS: usize = 8;
const TURNS: usize = 10;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn client(runtime: &Runtime) -> Locks {
    runtime.block_on(lockwright::connect("memory:")).unwrap()
}

fn measure<F: Future>(
    criterion: &mut Criterion,
    title: &str,
    runtime: &Runtime,
    mut call: impl FnMut() -> F,
) {
    criterion.bench_function(title, |bencher| bencher.iter(|| runtime.block_on(call())));
}

#[derive(Clone, Default)]
struct Named(Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>);

impl Named {
    async fn during<F: Future>(&self, name: &str, work: F) {
        let mutex = Arc::clone(self.0.lock().unwrap().entry(name.to_owned()).or_default());
        let guard = mutex.lock_owned().await;
        work.await;
        drop(guard);
        let mut table = self.0.lock().unwrap();
        if table.get(name).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            table.remove(name);
        }
    }
}

fn baselines(criterion: &mut Criterion) {
    let runtime = runtime();
    let mutex = tokio::sync::Mutex::new(());
    measure(criterion, "baseline: a tokio mutex", &runtime, async || drop(mutex.lock().await));
    let named = Named::default();
    let call = || named.during(black_box(NAME), async {});
    measure(criterion, "baseline: a hash map of tokio mutexes", &runtime, call);
}

fn acquire_and_release(criterion: &mut Criterion) {
    let runtime = runtime();
    let locks = client(&runtime);
    measure(criterion, "acquire + release, watchdog on", &runtime, async || {
        let guard = locks.mutex(black_box(NAME)).acquire().await.unwrap();
        black_box(&guard);
        guard.release().await.unwrap();
    });
    measure(criterion, "acquire + release, fixed", &runtime, async || {
        let guard = locks.mutex(black_box(NAME)).fixed().acquire().await.unwrap();
        black_box(&guard);
        guard.release().await.unwrap();
    });
    let _held = runtime.block_on(locks.mutex(NAME).acquire()).unwrap();
    measure(criterion, "try_acquire on a busy name", &runtime, async || {
        assert!(locks.mutex(black_box(NAME)).try_acquire().await.unwrap().is_none());
    });
}

fn enter_again(criterion: &mut Criterion) {
    let runtime = runtime();
    let locks = client(&runtime);
    let owner = Owner::new();
    let _held = runtime.block_on(locks.mutex(NAME).reentrant(&owner).acquire()).unwrap();
    measure(criterion, "re-entry", &runtime, async || {
        let guard = locks.mutex(NAME).reentrant(&owner).acquire().await.unwrap();
        guard.release().await.unwrap();
    });
}

async fn polled(times: u32) {
    let mut left = times;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn while_held(criterion: &mut Criterion) {
    let runtime = runtime();
    let locks = client(&runtime);
    let guard = runtime.block_on(locks.mutex(NAME).acquire()).unwrap();
    criterion.bench_function("check", |bencher| bencher.iter(|| guard.check().unwrap()));
    measure(criterion, "baseline: 100 polls", &runtime, || polled(black_box(100)));
    measure(criterion, "run, 100 polls", &runtime, || guard.run(polled(black_box(100))));
    measure(criterion, "renew, asked for", &runtime, || guard.renew());
}

async fn contend<F: Future<Output = ()> + Send + 'static>(
    turn: impl Fn() -> F + Clone + Send + 'static,
) {
    let task = |_| {
        let turn = turn.clone();
        tokio::spawn(async move {
            for _ in 0..TURNS {
                turn().await;
            }
        })
    };
    for task in (0..TASKS).map(task).collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

fn hand_over(criterion: &mut Criterion) {
    let runtime = runtime();
    let named = Named::default();
    measure(criterion, "baseline: 8 tasks, 10 turns each", &runtime, || {
        let named = named.clone();
        contend(move || {
            let named = named.clone();
            async move { named.during(NAME, tokio::task::yield_now()).await }
        })
    });
    let locks = client(&runtime);
    measure(criterion, "8 tasks, 10 turns each", &runtime, || {
        let locks = locks.clone();
        contend(move || {
            let locks = locks.clone();
            async move {
                let guard = locks.mutex(NAME).acquire().await.unwrap();
                // Lets the other tasks queue.
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
            }
        })
    });
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
    measure(criterion, "acquire + release next to 100,000 holds", &runtime, async || {
        let guard = locks.mutex(black_box(NAME)).acquire().await.unwrap();
        guard.release().await.unwrap();
    });
}

fn names(criterion: &mut Criterion) {
    criterion.bench_function("baseline: a name copied", |bencher| {
        bencher.iter(|| Arc::<str>::from(black_box(NAME)));
    });
    criterion.bench_function("a name checked", |bencher| {
        bencher.iter(|| LockName::new(black_box(NAME)).unwrap());
    });
    criterion.bench_function("a name percent-encoded", |bencher| {
        bencher.iter(|| percent::encode(black_box(NAME), |c| c == '/'));
    });
}

criterion_group!(
    benches,
    baselines,
    acquire_and_release,
    enter_again,
    while_held,
    hand_over,
    among_many,
    names
);
criterion_main!(benches);

use std::time::Instant;

use lockwright_core::{HoldState, Locks, Reason};

use super::server::{Backend, Server, plain, shared};
use crate::support::{LONG, acquire_and_release, in_mode, is_free, ms, within};

in_each_mode!(plain; hold_ends_with_its_runtime);

/// When the runtime ends, it closes the hold's connection, so the server releases the lock.
async fn hold_ends_with_its_runtime(server: &Server, mode: &str) {
    let other = shared(server, mode).await;
    for round in 0..4 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1 + round % 2)
            .enable_all()
            .build()
            .unwrap();
        let url = in_mode(&server.url(), mode);
        let (guard, locks) = runtime
            .spawn(async move {
                let locks = Locks::builder(Backend::connect(&url).await.unwrap());
                let locks = locks.ttl(LONG).build().unwrap();
                (locks.mutex("x").acquire().await.unwrap(), locks)
            })
            .await
            .unwrap();
        let locks = (round < 2).then_some(locks);
        let signal = guard.signal();
        guard.check().unwrap();
        tokio::task::spawn_blocking(move || drop(runtime)).await.unwrap();
        let begun = Instant::now();
        let state = guard.check();
        assert!(state.is_err(), "{mode}: still valid {:?} after", begun.elapsed());
        assert_eq!(signal.ended().await, HoldState::Lost(Reason::SessionEnded), "{mode}");
        within(ms(5_000), "the server to free it", async || is_free(&*other, "x").await).await;
        acquire_and_release(&*other, "x").await;
        drop((guard, locks));
    }
}

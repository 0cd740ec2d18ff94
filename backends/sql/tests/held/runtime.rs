//! Holds whose runtime ends.

use std::time::Instant;

use lockwright_core::{HoldState, Reason, ReleaseMode};

use crate::server::{LONG, Server, claim, granted, is_free, ms, on_each, within};

on_each!(hold_ends_with_its_runtime);

/// The connection closes with the runtime, so the server frees the lock.
async fn hold_ends_with_its_runtime<S: Server>(server: &S, mode: &str) {
    let other = server.backend(mode, "").await;
    for round in 0..4 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1 + round % 2)
            .enable_all()
            .build()
            .unwrap();
        // The client outlives the runtime in half of the rounds.
        let url = format!("{}?mode={mode}", server.url_through(server.address().port()));
        let (guard, locks) = runtime
            .spawn(async move {
                let locks = lockwright_core::Locks::builder(S::connect(&url).await);
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
        let next = claim("x", LONG);
        granted(&*other, &next).await;
        other.release(&next, ReleaseMode::Plain).await.unwrap();
        drop((guard, locks));
    }
}

use lockwright_core::{
    BreakMode, BreakTarget, DistributedLock, Reason, ReleaseMode, Renew, Renewal,
};

use super::server::{Server, backend, set_isolation};
use crate::support::{MODES, claim_for, grant, hold, is_busy, ms, reader, within};

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_outlives_the_ttl_of_its_last_claim() {
    let server = Server::start().unwrap();
    let idle = || {
        let pids = "SELECT coalesce(string_agg(pid::text, ' ' ORDER BY pid), '') \
                    FROM pg_stat_activity WHERE application_name = 'lockwright/idle'";
        server.sql(pids).unwrap()
    };
    let ttl = ms(1_000);
    for mode in MODES {
        for new_claim in [claim_for, reader] {
            let held = new_claim("x", ttl);
            let (one, two) = (backend(&server, mode).await, backend(&server, mode).await);
            grant(&one, &held).await;
            assert!(is_busy(&two, &claim_for("x", ttl)).await);
            one.release(&held, ReleaseMode::Plain).await.unwrap();
            let before = idle();
            assert_eq!(before.split(' ').count(), 2, "{before:?} are kept");
            tokio::time::sleep(ttl * 2).await;
            assert_eq!(idle(), before, "{mode}: the server has ended one");
            drop((one, two));
            within(ms(10_000), "the sessions to go", async || idle().is_empty()).await;
        }
    }
}

/// In the mode `row`, the renewal must see the break although it was committed after the hold's
/// transaction began.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_hold_runs_out_at_every_level_of_isolation() {
    let server = Server::start().unwrap();
    set_isolation(&server, "repeatable read");
    for mode in MODES {
        let backend = backend(&server, mode).await;
        let held = hold(&backend, "x").await;
        let (how, seen) = (BreakMode::RunOut, BreakTarget::Token(held.token));
        backend.break_lock(&held.name, seen, how, "us", "test").await.unwrap();
        let renewed = backend.renew(&[Renew::of(&held)]).await.unwrap();
        assert_eq!(renewed, [Renewal::not_held(Reason::Broken)], "{mode}");
    }
}

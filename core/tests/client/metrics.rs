use lockwright_core::{BreakMode, BreakTarget, Locks};
use metrics::LocalRecorderGuard;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::support::{
    Op, TTL, UNAVAILABLE, another_client, client, poll_once, secs, settle_down, troubled,
};

/// Records this thread's metrics until the guard is dropped.
fn record() -> (PrometheusHandle, LocalRecorderGuard<'static>) {
    let builder = PrometheusBuilder::new().set_buckets(&[1.0]).unwrap();
    let recorder = Box::leak(Box::new(builder.build_recorder()));
    (recorder.handle(), metrics::set_default_local_recorder(recorder))
}

/// Returns the value of a metric of the memory backend, or 0 if it wasn't recorded.
fn value(handle: &PrometheusHandle, name: &str, group: &str, label: &str) -> f64 {
    let series = format!("lockwright_{name}{{backend=\"memory\",group=\"{group}\"{label}}} ");
    let text = handle.render();
    text.lines().find_map(|line| line.strip_prefix(&series)).map_or(0.0, |it| it.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn waiting_and_holding_are_measured_by_group() {
    let ((handle, _recording), (locks, memory, clock)) = (record(), client());
    let other = another_client(&memory, &clock);
    let held = other.mutex("x").group("reports").acquire().await.unwrap();
    let mut waiting = Box::pin(locks.mutex("x").group("orders").acquire());
    assert!(poll_once(&mut waiting).is_none());
    assert_eq!(value(&handle, "waiting", "orders", ""), 1.0);
    assert_eq!(value(&handle, "held", "reports", ""), 1.0);
    clock.sleep(secs(3)).await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap();
    assert_eq!(value(&handle, "waiting", "orders", ""), 0.0);
    assert_eq!(value(&handle, "acquire_seconds_sum", "orders", ""), 3.0);
    assert_eq!(value(&handle, "hold_seconds_sum", "reports", ""), 3.0);
    assert_eq!(value(&handle, "held", "reports", ""), 0.0);
    assert_eq!(value(&handle, "held", "orders", ""), 1.0);
    assert!(other.mutex("x").group("tries").try_acquire().await.unwrap().is_none());
    drop(Box::pin(other.mutex("x").group("tries").acquire()));
    assert_eq!(value(&handle, "waiting", "tries", ""), 0.0);
    assert_eq!(value(&handle, "acquire_seconds_count", "tries", ""), 0.0);
    clock.sleep(secs(2)).await;
    drop(guard);
    assert_eq!(value(&handle, "hold_seconds_sum", "orders", ""), 2.0);
}

/// Returns the number of granted requests of the group, the sum of their holds in seconds, and the
/// number of present ones.
fn uses(handle: &PrometheusHandle, group: &str) -> (f64, f64, f64) {
    let value = |name| value(handle, name, group, "");
    (value("acquire_seconds_count"), value("hold_seconds_sum"), value("held"))
}

#[tokio::test(start_paused = true)]
async fn each_turn_of_a_hold_counts_for_its_own_group() {
    let ((handle, _recording), (locks, _, clock)) = (record(), client());
    let request = |group| locks.mutex("x").group(group).keep_warm(secs(4));
    let first = request("first").acquire().await.unwrap();
    let mut second = Box::pin(request("second").acquire());
    assert!(poll_once(&mut second).is_none());
    clock.sleep(secs(1)).await;
    let token = first.token();
    first.release().await.unwrap();
    let second = second.await.unwrap();
    clock.sleep(secs(2)).await;
    second.release().await.unwrap();
    clock.sleep(secs(3)).await;
    let third = request("third").acquire().await.unwrap();
    assert_eq!(third.token(), token, "it is one hold");
    clock.sleep(secs(2)).await;
    assert_eq!(uses(&handle, "first"), (1.0, 1.0, 0.0));
    assert_eq!(uses(&handle, "second"), (1.0, 2.0, 0.0), "a warm hold isn't in use");
    assert_eq!(uses(&handle, "third"), (1.0, 0.0, 1.0));
    let ticket = third.into_ticket().unwrap();
    assert_eq!(uses(&handle, "third"), (1.0, 2.0, 0.0));
    let resumed = locks.resume(&ticket).await.unwrap();
    assert_eq!(uses(&handle, ""), (0.0, 0.0, 1.0));
    drop(resumed);
    assert_eq!(uses(&handle, ""), (0.0, 0.0, 0.0));
}

async fn hold(locks: &Locks, group: &'static str) -> lockwright_core::Guard {
    locks.mutex(group).group(group).acquire().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn renewals_and_losses_are_counted() {
    let ((handle, _recording), (locks, faulty, _, _, clock)) = (record(), troubled());
    let orders = hold(&locks, "orders").await;
    clock.sleep(TTL).await;
    let renewals =
        |outcome| value(&handle, "renewals_total", "orders", &format!(",outcome=\"{outcome}\""));
    assert!(renewals("renewed") >= 1.0 && renewals("indeterminate") == 0.0);
    let losses =
        |group, reason| value(&handle, "losses_total", group, &format!(",reason=\"{reason}\""));
    let broken = hold(&locks, "broken").await;
    locks.break_lock("broken", BreakTarget::Any, BreakMode::Now, "a test").await.unwrap();
    assert!(broken.renew().await.is_err());
    assert_eq!(losses("broken", "broken"), 1.0);
    faulty.always(Op::Renew, UNAVAILABLE);
    clock.sleep(TTL * 2).await;
    settle_down().await;
    assert!(renewals("indeterminate") >= 1.0);
    assert_eq!(losses("orders", "unreachable"), 1.0);
    assert_eq!(value(&handle, "held", "orders", ""), 0.0);
    drop((orders, broken));
    assert_eq!(value(&handle, "hold_seconds_count", "orders", ""), 1.0);
}

use std::thread::sleep;
use std::time::{Duration, Instant};

use lockwright::ErrorKind;
use lockwright::blocking::connect;

#[test]
fn holds_are_renewed_while_the_program_works() {
    let locks = connect("memory:").unwrap();
    let guard = locks.mutex("a").ttl(Duration::from_secs(1)).acquire().unwrap();
    // The guard keeps the client's thread.
    drop(locks);
    let (first, begun) = (guard.lost_at(), Instant::now());
    while guard.lost_at() == first {
        assert!(begun.elapsed() < Duration::from_secs(60), "the hold is not renewed");
        sleep(Duration::from_millis(10));
    }
    guard.check().unwrap();
    guard.release().unwrap();
}

#[test]
fn lock_is_exclusive_until_a_release_or_a_drop() {
    let [one, two] = [(); 2].map(|()| connect("memory:blocking").unwrap());
    let guard = one.mutex("a").acquire().unwrap();
    let fence = guard.fence();
    assert!(two.write("a").try_acquire().unwrap().is_none());
    let limited = two.read("a").wait_for(Duration::from_millis(20)).acquire();
    assert!(matches!(limited.unwrap_err().kind(), ErrorKind::TimedOut(_)));
    guard.release().unwrap();
    let next = two.mutex("a").with(|guard| guard.fence()).unwrap();
    assert!(next > fence);
    let permits = two.semaphore("b", 2).map(|request| request.permits(2)).acquire().unwrap();
    assert!(one.semaphore("b", 2).try_acquire().unwrap().is_none());
    drop(permits);
    two.close();
    assert!(one.semaphore("b", 2).try_acquire().unwrap().is_some());
    assert_eq!(two.mutex("a").acquire().unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
#[should_panic(expected = "lockwright::blocking was called inside a tokio runtime")]
async fn call_inside_a_runtime_panics() {
    let _ = connect("memory:");
}

use crate::support::{client, faulty_memory, secs};
use lockwright_core::{Error, ErrorKind, Locks, SweepReport};

#[tokio::test(start_paused = true)]
async fn a_client_sweeps_when_asked_to_and_goes_on_while_there_is_more() {
    let (_, memory, clock) = client();
    let faulty = faulty_memory(&memory, &clock);
    let some = |more| Ok(SweepReport { rows: 10, more });
    let failed = Err(Error::new(ErrorKind::Unavailable, "not now"));
    faulty.next_sweeps([some(true), some(true), some(false), failed]);
    faulty.next_sweeps((0..10).map(|_| some(false)));
    let builder = Locks::builder(faulty.clone()).clock(clock.clone());
    let locks = builder.sweep(secs(3_600)).build().unwrap();
    let begun = clock.now();
    clock.sleep(secs(300)).await;
    let swept = faulty.sweeps();
    let at: Vec<_> = swept.iter().map(|(at, _)| at.saturating_since(begun)).collect();
    assert!(swept.iter().all(|(_, idle)| *idle == secs(3_600)));
    assert!((6..=9).contains(&at.len()), "{at:?}");
    assert!(at[2] - at[0] < secs(1), "{at:?}");
    assert!(at[3] - at[2] > secs(40) && at[4] - at[3] > secs(40), "{at:?}");
    drop(locks);
    clock.sleep(secs(300)).await;
    assert!(faulty.sweeps().len() <= swept.len() + 1, "it ends with its client");
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_sweep_unasked_or_where_it_has_no_effect() {
    let (_, memory, clock) = client();
    let faulty = faulty_memory(&memory, &clock);
    let unasked = Locks::builder(faulty.clone()).clock(clock.clone()).build().unwrap();
    clock.sleep(secs(300)).await;
    assert_eq!(faulty.sweeps(), []);
    faulty.next_sweeps([Ok(SweepReport::default())]);
    assert!(unasked.sweep(secs(1)).await.is_ok());
    let builder = Locks::builder(faulty.clone()).clock(clock.clone());
    let _asked = builder.sweep(secs(3_600)).build().unwrap();
    clock.sleep(secs(600)).await;
    assert_eq!(faulty.sweeps().len(), 2, "once by hand, and once in vain");
}

use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::*;

const OF: u32 = 3;

pub(crate) struct Two(pub(crate) Arc<dyn DistributedLock>, pub(crate) Arc<dyn DistributedLock>);

impl Two {
    pub(crate) fn new(one: impl DistributedLock, two: impl DistributedLock) -> Self {
        Self(Arc::new(one), Arc::new(two))
    }
}

pub(crate) fn claim_as(locked: &str, mode: Mode) -> Claim {
    Claim { mode, ..claim(locked) }
}

fn permits(count: u32) -> Mode {
    Mode::Permits { count, of: OF }
}

fn soon() -> Wait {
    in_time(LIMIT)
}

/// Eight tasks of two clients acquire and release `x` in modes given by `mode`. The sum of the
/// holders' weights must never exceed `most`.
async fn contend(
    Two(one, two): Two,
    mode: fn(u32, u32) -> Mode,
    weight: fn(Mode) -> u32,
    most: u32,
) {
    const ROUNDS: u32 = 40;

    let taken = Arc::new(AtomicU32::new(0));
    let together = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let backend = Arc::clone(if task % 2 == 0 { &one } else { &two });
        let (taken, together) = (Arc::clone(&taken), Arc::clone(&together));
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                let claim = claim_as("x", mode(task, round));
                while is_busy(&*backend, &claim).await {
                    sleep(ms(1)).await;
                }
                let weight = weight(claim.mode);
                let before = taken.fetch_add(weight, Ordering::SeqCst);
                together.fetch_max(before + weight, Ordering::SeqCst);
                sleep(ms(1)).await;
                taken.fetch_sub(weight, Ordering::SeqCst);
                release(&*backend, &claim).await;
            }
        });
    }
    tasks.join_all().await;
    let together = together.load(Ordering::SeqCst);
    assert!(together <= most, "{together} of {most} at once");
    assert!(together > 1, "nobody held beside another");
    let left = one.list("", None).await.unwrap().names;
    assert!(left.is_empty(), "{left:?}");
}

pub(crate) async fn writer_excludes_all_others(two: Two) {
    // A writer weighs as much as eight readers, so no reader can hold the name next to it.
    let mode = |task, round| if (task + round) % 4 == 0 { Mode::Exclusive } else { Mode::Shared };
    contend(two, mode, |mode| if mode == Mode::Exclusive { 8 } else { 1 }, 8).await;
}

pub(crate) async fn never_more_permits_than_there_are(two: Two) {
    let weight = |mode| match mode {
        Mode::Permits { count, .. } => count,
        _ => u32::MAX,
    };
    contend(two, |task, round| permits(1 + (task + round) % 2), weight, OF).await;
}

/// No new reader may precede the waiting writer, even between the last reader's release and the
/// writer's next poll.
pub(crate) async fn a_writer_that_waits_comes_next(Two(one, two): Two) {
    let (first, last) = (claim_as("x", Mode::Shared), claim_as("x", Mode::Shared));
    let (writer, late) = (claim("x"), claim_as("x", Mode::Shared));
    grant(&*one, &first).await;
    grant(&*two, &last).await;
    let answer = busy(&*two, &writer, soon()).await;
    assert!(answer.queued, "it stands in the way of others: {answer:?}");
    busy(&*one, &late, Wait::No).await;
    let first_again = renew(&*one, &first).await;
    assert!(matches!(first_again.outcome, RenewalOutcome::Renewed { .. }), "{first_again:?}");
    grant(&*one, &first).await;
    for reader in [&first, &last] {
        release(&*one, reader).await;
        busy(&*one, &late, Wait::No).await;
    }
    let granted = grant(&*two, &writer).await;
    release(&*two, &writer).await;
    let readers = grant(&*one, &late).await;
    assert!(readers.fence > granted.fence, "{readers:?} after {granted:?}");
    release(&*one, &late).await;
}

pub(crate) async fn a_writer_that_gives_up_lets_readers_in(Two(one, two): Two) {
    let (reader, writer) = (claim_as("x", Mode::Shared), claim("x"));
    let late = claim_as("x", Mode::Shared);
    grant(&*one, &reader).await;
    busy(&*two, &writer, soon()).await;
    let mut told = events(&*one);
    let waiting = timeout(LIMIT, async {
        // Repeats until `one` listens for wake-ups, which may take a moment.
        loop {
            busy(&*one, &late, soon()).await;
            busy(&*two, &writer, soon()).await;
            release(&*two, &writer).await;
            if one.profile().wake_up == lockwright_core::WakeUp::Poll {
                break;
            }
            let woken = timeout(Duration::from_secs(1), next(&mut told)).await;
            match woken {
                Ok(Event::Wake(name)) => break assert_eq!(name, late.name),
                Ok(other) => panic!("{other:?}"),
                Err(_) => {}
            }
        }
    });
    waiting.await.expect("readers are told that the writer has given up");
    grant(&*one, &late).await;
    assert_eq!(two.release(&writer, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);
}

/// A renewal, a repeated claim or a transfer extends one of two holds. The name must stay locked
/// until the later expiry.
pub(crate) async fn a_renewed_hold_keeps_others_out(Two(one, two): Two) {
    let ttl = Duration::from_secs(2);
    for (mode, other) in [(Mode::Shared, Mode::Exclusive), (permits(1), permits(OF))] {
        for how in ["renew", "acquire", "swap"] {
            let held = [0, 1].map(|_| Claim { mode, ..claim_for("x", ttl) });
            for claim in &held {
                grant(&*one, claim).await;
            }
            let mut long = Claim { ttl: LIMIT, ..held[0].clone() };
            match how {
                "renew" => assert_eq!(renew(&*one, &long).await, Renewal::RENEWED),
                "acquire" => drop(grant(&*one, &long).await),
                _ => {
                    long.token = Token::random();
                    let answer = one.swap(held[0].token, &long).await.unwrap();
                    assert!(matches!(answer, AcquireOutcome::Granted(_)), "{answer:?}");
                }
            }
            sleep(ttl).await;
            let next = claim_as("x", other);
            busy(&*two, &next, Wait::No).await;
            release(&*one, &long).await;
            grant(&*two, &next).await;
            release(&*two, &next).await;
        }
    }
}

/// The name must become free when its last hold expires, even if a released hold had a longer TTL.
pub(crate) async fn a_name_runs_out_with_the_last_of_them(Two(one, two): Two) {
    let ttl = Duration::from_secs(2);
    for (mode, other) in [(Mode::Shared, Mode::Exclusive), (permits(1), permits(OF))] {
        let (long, short) = (claim_as("x", mode), Claim { mode, ..claim_for("x", ttl) });
        let other = claim_as("x", other);
        grant(&*one, &long).await;
        grant(&*one, &short).await;
        assert_eq!(renew(&*one, &short).await, Renewal::RENEWED);
        let moved = Claim { token: Token::random(), ..short.clone() };
        assert!(matches!(one.swap(short.token, &moved).await, Ok(AcquireOutcome::Granted(_))));
        sleep(ttl).await;
        busy(&*two, &other, Wait::No).await;

        let short = Claim { mode, ..claim_for("x", ttl) };
        grant(&*one, &short).await;
        release(&*one, &long).await;
        sleep(ttl).await;
        grant(&*two, &other).await;
        assert_eq!(one.release(&short, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);
        release(&*two, &other).await;
    }
}

pub(crate) async fn their_holds_move(Two(one, two): Two) {
    for mode in [Mode::Shared, permits(2)] {
        let (first, other) = (claim_as("x", mode), claim_as("x", mode));
        let (moved, again) = (claim_as("x", mode), claim_as("x", mode));
        let had = grant(&*one, &first).await;
        let answer = two.swap(first.token, &moved).await.unwrap();
        let AcquireOutcome::Granted(granted) = answer else { panic!("{mode}: {answer:?}") };
        assert_eq!(had.fence == granted.fence, mode == Mode::Shared, "{had:?}, {granted:?}");
        let repeated = two.swap(first.token, &moved).await.unwrap();
        assert_eq!(repeated, AcquireOutcome::Granted(granted));
        let answer = one.swap(first.token, &again).await.unwrap();
        assert!(matches!(answer, AcquireOutcome::Busy(_)), "{mode}: {answer:?}");
        let larger = claim_as("x", permits(OF));
        for (from, to) in [(Token::random(), &again), (moved.token, &larger)] {
            let answer = one.swap(from, to).await.unwrap();
            assert!(matches!(answer, AcquireOutcome::Busy(_)), "{mode}: {answer:?}");
        }
        assert_eq!(one.release(&first, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::NotHeld);
        refused(one.try_acquire(&first).await, ErrorKind::Lost(Reason::Gone), "");
        let kept_out = if mode == Mode::Shared { claim("x") } else { other.clone() };
        busy(&*one, &kept_out, Wait::No).await;
        release(&*one, &moved).await;
        grant(&*one, &other).await;
        release(&*one, &other).await;
    }
}

pub(crate) async fn a_buried_token_is_never_granted(Two(one, two): Two) {
    for mode in [Mode::Shared, permits(OF)] {
        let (held, unheard) = (claim_as("x", mode), claim_as("x", mode));
        grant(&*one, &held).await;
        let answer = one.release(&unheard, ReleaseMode::Reconcile).await.unwrap();
        assert_eq!(answer, ReleaseOutcome::NotHeld);
        let answer = one.release(&held, ReleaseMode::Reconcile).await.unwrap();
        assert_eq!(answer, ReleaseOutcome::Released);
        for ended in [&held, &unheard] {
            refused(two.try_acquire(ended).await, ErrorKind::Lost(Reason::Gone), "");
        }
        acquire_and_release(&*two, "x").await;
    }
}

pub(crate) async fn a_batch_may_have_all_modes(Two(one, _): Two) {
    let held = [
        claim("alone"),
        claim_as("read", Mode::Shared),
        claim_as("some", permits(1)),
        claim_as("read", Mode::Shared),
        claim_as("some", permits(2)),
    ];
    let missing = claim_as("read", Mode::Shared);
    let broken = claim_as("read", Mode::Shared);
    for claim in held.iter().chain([&broken]) {
        grant(&*one, claim).await;
    }
    let seen = BreakTarget::Token(broken.token);
    one.break_lock(&broken.name, seen, BreakMode::RunOut, "me", "to see").await.unwrap();
    let batch: Vec<Renew<'_>> =
        [&missing, &broken].into_iter().chain(&held).map(Renew::of).collect();
    let answers = one.renew(&batch).await.unwrap();
    let outcomes: Vec<_> = answers.into_iter().map(|answer| answer.outcome).collect();
    assert_eq!(outcomes[0], RenewalOutcome::NotHeld(Reason::Gone));
    assert_eq!(outcomes[1], RenewalOutcome::NotHeld(Reason::Broken));
    for outcome in &outcomes[2..] {
        assert!(matches!(outcome, RenewalOutcome::Renewed { .. }), "{outcomes:?}");
    }
    let names = one.list("", None).await.unwrap().names;
    let listed: Vec<_> =
        names.iter().map(|name| (name.name.as_str(), name.holders.len())).collect();
    assert_eq!(listed, [("alone", 1), ("read", 3), ("some", 2)]);
}

pub(crate) async fn all_are_broken_if_any_will_do(Two(one, two): Two) {
    for how in [BreakMode::RunOut, BreakMode::Now] {
        let readers = [(); 3].map(|()| claim_as("x", Mode::Shared));
        for reader in &readers {
            grant(&*one, reader).await;
        }
        let name = &readers[0].name;
        let shown = two.inspect(name).await.unwrap();
        assert_eq!(shown.holders.len(), 3, "{shown:?}");
        for holder in &shown.holders {
            assert_eq!((holder.mode, holder.fence), (Mode::Shared, shown.fence), "{holder:?}");
            assert!(holder.identity.is_some() && holder.remaining.is_some(), "{holder:?}");
        }
        let listed = two.list("", None).await.unwrap().names;
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0].holders.len(), 3, "{listed:?}");
        let broken = two.break_lock(name, BreakTarget::Any, how, "me", "to see").await.unwrap();
        match how {
            BreakMode::RunOut => assert!(matches!(broken, Broken::RunsOut(_)), "{broken:?}"),
            _ => assert!(matches!(broken, Broken::Freed(_)), "{broken:?}"),
        }
        for reader in &readers {
            assert_eq!(renew(&*one, reader).await, Renewal::not_held(Reason::Broken));
        }
        if how == BreakMode::RunOut {
            let shown = two.inspect(name).await.unwrap();
            let reasons = shown.holders.iter().filter(|holder| holder.broken.is_some());
            assert_eq!(reasons.count(), 3, "{shown:?}");
            match one.try_acquire(&readers[0]).await {
                Ok(AcquireOutcome::Granted(repeat)) => {
                    assert!(repeat.valid.unwrap() < readers[0].ttl, "{repeat:?}");
                }
                answer => drop(refused(answer, ErrorKind::Lost(Reason::Broken), "")),
            }
            for reader in &readers {
                release(&*one, reader).await;
            }
        }
        acquire_and_release(&*two, "x").await;
    }
}

/// Leaves expired rows of readers, of permits, and of a writer that waited.
pub(crate) async fn leave_behind(one: &dyn DistributedLock) {
    let ttl = Duration::from_secs(3);
    let gone = [
        Claim { mode: Mode::Shared, ..claim_for("read", ttl) },
        Claim { mode: permits(2), ..claim_for("some", ttl) },
    ];
    for claim in &gone {
        grant(one, claim).await;
    }
    let writer = claim("read");
    busy(one, &writer, soon()).await;
    within(LIMIT, "the holds to expire", async || !is_busy(one, &writer).await).await;
    release(one, &writer).await;
    sleep(Duration::from_secs(4)).await;
}

/// Makes a test of each rule, with a server and two clients from `$start`.
macro_rules! all {
    ($start:ident) => {
        $crate::rules::tests!(
            $start;
            rules:
            writer_excludes_all_others,
            never_more_permits_than_there_are,
            a_writer_that_waits_comes_next,
            a_writer_that_gives_up_lets_readers_in,
            a_renewed_hold_keeps_others_out,
            a_name_runs_out_with_the_last_of_them,
            their_holds_move,
            a_buried_token_is_never_granted,
            a_batch_may_have_all_modes,
            all_are_broken_if_any_will_do
        );
    };
}
pub(crate) use all;

macro_rules! tests {
    ($start:ident; $module:ident: $($rule:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $rule() {
                let (_server, two) = $start().await;
                $module::$rule(two).await;
            }
        )*
    };
}
pub(crate) use tests;

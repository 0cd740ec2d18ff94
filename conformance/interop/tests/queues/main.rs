//! Tests with processes of other programs, whose locks are queues on the server. A place in a queue
//! ends with its client's lease or session.
#![forbid(unsafe_code)]

mod cases;
mod etcd;
mod programs;
mod scene;
mod sides;
mod zookeeper;

macro_rules! tests_with {
    (case $case:path, of $other:ident on $server:expr $(, $side:ident)*) => {{
        let scene = crate::scene::Scene::of($server, crate::programs::$other);
        $case(&scene $(, lockwright_interop::Side::$side)*);
    }};
    (whoever_is_first: $other:ident on $server:expr, $($case:ident)*) => {
        mod ours_first {
            $(
                #[test]
                fn $case() {
                    tests_with!(case crate::cases::$case, of $other on $server, Ours, Theirs);
                }
            )*
        }
        mod theirs_first {
            $(
                #[test]
                fn $case() {
                    tests_with!(case crate::cases::$case, of $other on $server, Theirs, Ours);
                }
            )*
        }
    };
    (of_one_side: $other:ident on $server:expr, $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                tests_with!(case crate::sides::$case, of $other on $server);
            }
        )*
    };
    ($($module:ident: $other:ident on $server:expr, $($attempts:ident)*;)*) => {
        $(
            mod $module {
                tests_with! {
                    whoever_is_first: $other on $server,
                    a_hold_keeps_the_other_out_until_it_is_released
                    the_queue_is_kept_in_the_order_of_arrival
                    a_hold_that_runs_out_is_not_taken_back
                    a_crash_frees_the_lock_when_it_has_run_out_and_not_before
                    a_waiter_that_crashes_lets_nobody_in
                    a_waiter_that_crashes_blocks_nobody_for_ever
                    names_below_a_name_are_others
                    a_name_below_a_name_can_be_shared
                }
                tests_with! {
                    of_one_side: $other on $server,
                    their_release_wakes_us
                    their_hold_is_one_without_a_token
                    both_take_turns_and_are_never_inside_at_once
                    $($attempts)*
                }
            }
        )*
    };
}

// `etcdctl lock` always waits, so only Lockwright tries.
tests_with! {
    beside_etcdctl: etcdctl on crate::etcd::server(),
        an_attempt_of_ours_beside_their_hold_fails_and_leaves_nothing;
    beside_gos_mutex: concurrency on crate::etcd::server(),
        an_attempt_of_ours_beside_their_hold_fails_and_leaves_nothing
        an_attempt_of_theirs_beside_our_hold_fails_and_leaves_nothing;
    beside_curator: curator on crate::zookeeper::server(),
        an_attempt_of_ours_beside_their_hold_fails_and_leaves_nothing
        an_attempt_of_theirs_beside_our_hold_fails_and_leaves_nothing;
    beside_kazoo: kazoo on crate::zookeeper::server(),
        an_attempt_of_ours_beside_their_hold_fails_and_leaves_nothing
        an_attempt_of_theirs_beside_our_hold_fails_and_leaves_nothing;
}

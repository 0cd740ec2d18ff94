//! Tests with other libraries that lock a key of Redis with `SET NX PX`, each in its own process.
#![forbid(unsafe_code)]

mod cases;
mod five;
mod programs;
mod quorum;
mod scene;

macro_rules! tests_with {
    ($other:ident on $scene:expr, $($case:ident)*) => {
        mod $other {
            use crate::{cases, scene::Scene};
            $(
                #[tokio::test]
                async fn $case() {
                    cases::$case($scene.await).await;
                }
            )*
        }
    };
    ($($other:ident on $scene:expr;)*) => {
        $(
            tests_with! {
                $other on $scene,
                a_lock_of_theirs_keeps_us_out_until_they_release_it
                a_lock_of_ours_keeps_them_out_until_we_release_it
                our_waiter_is_granted_what_they_release
                neither_ends_what_the_other_took_over_after_an_expiry
                a_crash_of_theirs_frees_the_lock_when_it_has_run_out_and_not_before
                a_crash_of_ours_frees_the_lock_when_it_has_run_out_and_not_before
                both_take_turns_and_are_never_inside_at_once
            }
        )*
    };
}

tests_with! {
    beside_redis_py on Scene::one_redis(crate::programs::redis_py);
    beside_redsync on Scene::one_redis(crate::programs::redsync);
    beside_redsync_on_five_nodes on Scene::redlock(crate::programs::redsync);
}

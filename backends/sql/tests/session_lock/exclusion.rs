use super::server::{Server, plain, shared};
use crate::support::{one_of_many, release};

in_each_mode!(plain; of_many_on_a_fresh_name_one_is_granted);

async fn of_many_on_a_fresh_name_one_is_granted(server: &Server, mode: &str) {
    let backends =
        [shared(server, mode).await, shared(server, mode).await, shared(server, mode).await];
    for round in 0..40 {
        let failed = |error| panic!("{error:?}");
        let (at, claim) = one_of_many(&backends, 9, &format!("x{round}"), failed).await;
        release(&backends[at], &claim).await;
    }
}

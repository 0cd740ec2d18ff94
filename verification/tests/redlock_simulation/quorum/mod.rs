//! Tests of the quorum on nodes whose replies each test decides.

mod acquire;
mod common;
mod inspect;
mod membership;
mod release;
mod renew;
mod test_node;

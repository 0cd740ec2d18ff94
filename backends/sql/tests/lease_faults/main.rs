//! The lease mode on stuck, slow or silent servers: the same tests for each server.
#![forbid(unsafe_code)]

mod kit;
mod locked_row;
mod mariadb;
mod postgres;
mod sessions;
mod silence;

macro_rules! cases {
    ($server:ty) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn locked_row_costs_one_hold_of_twenty() {
            crate::locked_row::costs_one_hold_of_twenty::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn locked_row_costs_one_reader_of_twenty() {
            crate::locked_row::costs_one_reader_of_twenty::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn locked_row_of_a_reader_costs_one_of_twenty() {
            crate::locked_row::of_a_reader_costs_one_of_twenty::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn locked_row_of_a_reader_costs_no_other_reader_of_the_name() {
            crate::locked_row::of_a_reader_costs_no_other_reader_of_the_name::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn locked_row_holds_up_no_listing_and_no_sweep() {
            crate::locked_row::holds_up_no_listing_and_no_sweep::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn busy_row_is_renewed() {
            crate::locked_row::is_renewed_amid_requests::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn locked_table_leaves_the_limit_of_sessions() {
            crate::sessions::locked_table::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn missing_replica_leaves_the_limit_of_sessions() {
            crate::sessions::missing_replica::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn frozen_server_leaves_the_limit_of_sessions() {
            crate::sessions::frozen_server::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn burst_of_names_leaves_the_limit_of_sessions() {
            crate::sessions::burst_of_names::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn silent_connections_are_replaced_in_time() {
            crate::silence::connections_are_replaced_in_time::<$server>().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn dropped_request_replaces_silent_connections() {
            crate::silence::dropped_request_replaces_connections::<$server>().await;
        }
    };
}
pub(crate) use cases;

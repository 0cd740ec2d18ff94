use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockwright_conformance::test_helpers::LIMIT;
use lockwright_core::{DistributedLock, Locks, async_trait};

#[async_trait]
pub(crate) trait Server: Send + Sync + Sized + 'static {
    /// Starts a server whose commits can be made to wait for a replica.
    fn start() -> Self;

    fn url(&self) -> String;
    fn url_through(&self, port: u16) -> String;
    fn address(&self) -> SocketAddr;

    async fn backend(url: &str) -> Arc<dyn DistributedLock>;

    /// Connects a backend whose requests wait longer for their answers.
    async fn patient_backend(url: &str, answer: Duration) -> Arc<dyn DistributedLock>;

    fn sql(&self, statements: &str) -> String;

    /// A lock on the server, until this is dropped.
    type Locking: Send;
    /// Locks the row that meets a condition.
    async fn lock_row(&self, table: &str, condition: &str) -> Self::Locking;
    async fn lock_table(&self) -> Self::Locking;

    /// Sets whether commits wait for a replica that doesn't exist.
    fn miss_replica(&self, missing: bool);

    fn freeze(&self);
    fn thaw(&self);

    fn sessions(&self) -> usize;

    /// Connects as another application, and runs a query.
    async fn connect_as_application(&self);
}

pub(crate) async fn locks<S: Server>(url: &str, ttl: Duration) -> Locks {
    Locks::builder(S::backend(url).await).ttl(ttl).wait(Some(LIMIT)).build().unwrap()
}

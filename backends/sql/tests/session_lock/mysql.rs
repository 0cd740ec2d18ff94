#[path = "breaking.rs"]
mod breaking;
#[path = "closing.rs"]
mod closing;
#[path = "joint_session.rs"]
mod joint_session;
#[path = "limit.rs"]
mod limit;
#[path = "renewing.rs"]
mod renewing;
#[path = "runtime.rs"]
mod runtime;
#[path = "silence.rs"]
mod silence;

use std::time::Duration;

use crate::support::{ms, mysql as server};

/// A short TTL in whole seconds, the unit of the server's timeouts.
pub(super) const SHORT_TTL: Duration = ms(2_000);

/// Blocks the issue of fences until the session ends.
async fn lock_fences(server: &server::Server) -> server::Connection {
    let mut session = server::session(server).await;
    server::run(&mut session, "LOCK TABLES lockwright_hold_fence WRITE").await;
    session
}

async fn kill_joint_sessions(server: &server::Server) {
    let mut session = server::session(server).await;
    let ids = server
        .sql(
            "SELECT id FROM information_schema.processlist \
             WHERE IS_USED_LOCK(CONCAT(' lockwright/joint/', id)) = id",
        )
        .unwrap();
    for id in ids.split_whitespace() {
        server::run(&mut session, &format!("KILL {id}")).await;
    }
}

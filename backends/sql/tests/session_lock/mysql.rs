mod breaking;
mod client_end;
mod joint_session;
mod limit;
mod renewing;

use std::time::Duration;

use crate::support::{ms, mysql as server};

/// A short TTL in whole seconds, the unit of the server's timeouts.
pub(super) const SHORT_TTL: Duration = ms(2_000);

/// SQL that blocks the issue of fences until the session ends.
const LOCK_FENCES: &str = "LOCK TABLES lockwright_hold_fence WRITE";

fn kill_joint_sessions(server: &server::Server) {
    let ids = "SELECT id FROM information_schema.processlist \
               WHERE IS_USED_LOCK(CONCAT(' lockwright/joint/', id)) = id";
    for id in server.sql(ids).unwrap().split_whitespace() {
        server.sql(&format!("KILL {id}")).unwrap();
    }
}

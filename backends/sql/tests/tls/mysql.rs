#[path = "cases.rs"]
mod cases;

use self::server::Server;
use crate::support::mysql as server;

const DISABLE: &str = "DISABLED";
const REQUIRE: &str = "REQUIRED";
const VERIFY_CA: &str = "VERIFY_CA";
const FULL: &str = "VERIFY_IDENTITY";

const CA: &str = "ssl-ca";
const CERT: &str = "ssl-cert";
const KEY: &str = "ssl-key";

/// A word of the error if the server rejects plain connections.
const PLAIN_REFUSED: &str = "TLS";

fn socket(server: &Server) -> String {
    format!("?socket={}", server.folder().join("socket").display())
}

#[path = "cases.rs"]
mod cases;

use self::server::Server;
use crate::support::postgres as server;

const DISABLE: &str = "disable";
const REQUIRE: &str = "require";
const VERIFY_CA: &str = "verify-ca";
const FULL: &str = "verify-full";

const CA: &str = "sslrootcert";
const CERT: &str = "sslcert";
const KEY: &str = "sslkey";

const PLAIN_REFUSED: &str = "over TLS only";

fn socket(server: &Server) -> String {
    format!("?host={}&port={}", server.folder().display(), server.port())
}

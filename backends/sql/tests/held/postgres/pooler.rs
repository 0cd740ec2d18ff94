use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode};
use lockwright_testbed::{Account, Process, Program, port};
use tempfile::TempDir;

use super::server::{Backend, Server, backend};
use crate::support::{LONG, MODES, claim_for, grant, in_mode, is_busy, ms, within};

struct Pooler {
    url: String,
    _process: Process,
    _folder: TempDir,
}

impl Pooler {
    async fn start(server: &Server, pool_mode: &str) -> Self {
        let account = Account::instead_of_root(&["postgres"]);
        let folder = tempfile::tempdir().unwrap();
        let port = port::free();
        let settings = format!(
            "[databases]\nlockwright = host=127.0.0.1 port={} user=lockwright password={}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {pool_mode}\ndefault_pool_size = 20\n",
            server.port(),
            server.password(),
        );
        std::fs::write(folder.path().join("pgbouncer.ini"), settings).unwrap();
        if let Some(account) = account {
            account.own(folder.path()).unwrap();
            account.own(&folder.path().join("pgbouncer.ini")).unwrap();
        }
        let process = Program::new("pgbouncer", "pgbouncer")
            .arg("pgbouncer.ini")
            .run_as(account)
            .start(folder.path())
            .unwrap();
        let url = server.url_through(port);
        within(ms(10_000), "PgBouncer to listen", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
        })
        .await;
        Self { url, _process: process, _folder: folder }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_shares_sessions_out_is_refused() {
    let server = Server::start().unwrap();
    for pool_mode in ["transaction", "statement"] {
        let pooler = Pooler::start(&server, pool_mode).await;
        for mode in MODES {
            let error = Backend::connect(&in_mode(&pooler.url, mode)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{pool_mode}: {error:?}");
            assert!(error.to_string().contains("pooler"), "{error}");
            assert!(error.to_string().contains("mode lease"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_leaves_sessions_whole_is_as_good_as_none() {
    let server = Server::start().unwrap();
    let pooler = Pooler::start(&server, "session").await;
    for mode in MODES {
        let through = Backend::connect(&in_mode(&pooler.url, mode)).await.unwrap();
        let direct = backend(&server, mode).await;
        let mine = claim_for("x", LONG);
        grant(&through, &mine).await;
        assert!(is_busy(&direct, &claim_for("x", LONG)).await);
        through.release(&mine, ReleaseMode::Plain).await.unwrap();
        let next = claim_for("x", LONG);
        grant(&direct, &next).await;
        direct.release(&next, ReleaseMode::Plain).await.unwrap();
    }
}

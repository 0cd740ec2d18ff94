mod data;
mod ensemble;
mod servers;

use std::sync::Arc;

use lockwright_core::backend_util::finding;
use lockwright_core::backend_util::tls::is_local;
use lockwright_core::{ErrorKind, Finding, Result};
use zookeeper_client as zk;

use crate::config::Config;
use crate::four_letter_words::{Server, Status, look};
use crate::limits::Limits;
use crate::session::Session;
use crate::shared::Shared;

pub(crate) async fn examine(shared: &Arc<Shared>) -> Result<Vec<Finding>> {
    let is_secured = shared.config.uses_tls();
    let servers = if is_secured { Vec::new() } else { look(&shared.config).await };
    let mut findings: Vec<Finding> = servers.iter().flat_map(servers::look_at).collect();
    findings.extend(servers.iter().filter_map(|server| servers::tick(shared, server)));
    findings.extend(is_secured.then(|| servers::unseen(shared)));
    findings.extend(unencrypted(&shared.config));
    match of_ensemble(shared, &servers).await {
        Ok(found) => findings.extend(found),
        Err(cause) if cause.kind() == ErrorKind::Unavailable => {
            if servers.iter().all(|server| matches!(server.status, Status::Silent(_))) {
                return Err(cause);
            }
            findings.push(ensemble::no_quorum(&cause));
        }
        Err(cause) => return Err(cause),
    }
    let is_open = |acl: &zk::Acl| {
        *acl.auth_id() == zk::AuthId::anyone() && acl.permission() != zk::Permission::READ
    };
    if shared.acls().iter().any(is_open) {
        findings.push(finding::note(
            "zookeeper-open",
            "every client may change the locks' nodes",
            "every client that reaches the servers can take and release these locks",
            "use the same login for all clients that share the locks, as in \
             zookeeper:user:password@…, or restrict network access to the servers",
        ));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

async fn of_ensemble(shared: &Arc<Shared>, servers: &[Server]) -> Result<Vec<Finding>> {
    // An existing session may be stuck.
    let Limits { longest, tick, .. } = shared.limits;
    let (config, clock) = (&shared.config, &shared.clock);
    let session = Session::open(config, clock, shared.paths.probe_path(), longest, tick).await?;
    let session = Arc::new(session);
    let mut findings = ensemble::look(shared, servers, &session).await?;
    findings.extend(data::look(shared, &session).await?);
    Ok(findings)
}

fn unencrypted(config: &Config) -> Option<Finding> {
    let mut hosts = config.contents.hosts.iter();
    let host = hosts.find(|host| !is_local(host)).filter(|_| !config.uses_tls())?;
    let password = if config.may_have_login() { " and the password" } else { "" };
    Some(finding::warning(
        "zookeeper-no-tls",
        format!("the connection to {host} is not encrypted"),
        format!(
            "an attacker on the network can read lock names{password}, and take and release locks"
        ),
        "give the servers a port for TLS (secureClientPort), and write zookeeper+tls for zookeeper",
    ))
}

#[cfg(test)]
mod tests {
    use lockwright_core::Severity;

    use super::*;

    #[test]
    fn unencrypted_remote_connection_is_found() {
        let found = |url: &str| unencrypted(&Config::new(url).unwrap());
        for local in ["zookeeper:127.0.0.1,localhost:1", "zookeeper:[::1]:2181"] {
            assert_eq!(found(local), None, "{local}");
        }
        let finding = found("zookeeper:127.0.0.1,10.0.0.1:1").unwrap();
        assert_eq!((finding.code, finding.severity), ("zookeeper-no-tls", Severity::Warning));
        assert!(finding.what.contains("10.0.0.1:1 "), "{finding:?}");
        assert!(!finding.why.contains("password"), "{finding:?}");
        let finding = found("zookeeper:me:hush@zk.example").unwrap();
        assert!(finding.why.contains("the password"), "{finding:?}");
        assert!(!format!("{finding:?}").contains("hush"), "{finding:?}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn encrypted_remote_connection_is_no_finding() {
        let config = Config::new("zookeeper+tls:10.0.0.1:1?ca=/ca.pem").unwrap();
        assert_eq!(unencrypted(&config), None);
    }
}

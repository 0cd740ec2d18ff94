use lockwright_core::Result;
use lockwright_core::backend_util::tls::{self, Files};
use zookeeper_client as zk;

use crate::config::Config;
use crate::errors::invalid;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Security {
    authority: String,
    client: Option<(String, String)>,
}

impl Security {
    pub(crate) fn take(
        parameter: impl FnMut(&str) -> Option<String>,
        secured: bool,
    ) -> Result<Option<Self>, String> {
        let unsecured = "the URL doesn't begin with zookeeper+tls";
        let Files { authority, client } = Files::take(parameter, secured, unsecured)?;
        if !secured {
            return Ok(None);
        }
        if !cfg!(feature = "tls") {
            return Err(tls::not_in_this_build("zookeeper-tls"));
        }
        // The client library doesn't support the system's CAs, so `ca` is required.
        let authority = authority.ok_or(
            "the parameter ca is missing, and the system's CAs aren't used; add ca=PATH with the CAs \
             to trust",
        )?;
        Ok(Some(Self { authority, client }))
    }
}

/// Adds TLS to the connector. The files are read again for each session.
#[cfg(feature = "tls")]
pub(crate) fn secured(connector: zk::Connector, config: &Config) -> Result<zk::Connector> {
    if !config.uses_tls() {
        return Ok(connector);
    }
    // The client library would panic on an invalid server name, and without a crypto provider.
    for host in &config.contents.hosts {
        let name = host.rsplit_once(':').map_or(&**host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if !tls::is_certifiable(name) {
            return Err(invalid(format!("no certificate can be for a host named {name:?}")));
        }
    }
    tls::choose_provider();
    let Some(Security { authority, client }) = &config.contents.tls else { return Ok(connector) };
    let unusable = |what: String| move |cause| invalid(what).with_source(cause);
    let mut options = zk::TlsOptions::new()
        .with_pem_ca(&pem("ca", authority, "CERTIFICATE")?)
        .map_err(unusable(format!("ca={authority} has no certificate of a CA")))?;
    if let Some((certificate, key)) = client {
        options = options
            .with_pem_identity(
                &pem("cert", certificate, "CERTIFICATE")?,
                &pem("key", key, "PRIVATE KEY")?,
            )
            .map_err(unusable(format!("cert={certificate} or key={key} is broken")))?;
    }
    Ok(connector.with_tls(options))
}

#[cfg(not(feature = "tls"))]
pub(crate) fn secured(connector: zk::Connector, config: &Config) -> Result<zk::Connector> {
    if config.uses_tls() {
        return Err(invalid(tls::not_in_this_build("zookeeper-tls")));
    }
    Ok(connector)
}

#[cfg(feature = "tls")]
fn pem(parameter: &str, file: &str, kind: &str) -> Result<String> {
    let text = tls::pem(parameter, file, kind).map_err(invalid)?;
    String::from_utf8(text).map_err(|_| invalid(format!("{parameter}={file} has more than text")))
}

pub(crate) fn refusal(cause: &zk::Error) -> Option<&'static str> {
    let cause = match cause {
        zk::Error::Custom(cause) => cause,
        zk::Error::BadArguments(what) => return Some(what),
        _ => return None,
    };
    Some(if cause.to_string().contains("private key") {
        "the client's key doesn't match its certificate, or has an unsupported format"
    } else {
        "the CAs or revocation lists to trust can't be used"
    })
}

pub(crate) fn doubts(is_secured: bool) -> &'static str {
    if is_secured {
        "or a failed TLS handshake, whose cause the client library doesn't report: no CA in ca=PATH \
         signed the server's certificate, it is for another host or has expired, the server \
         requires a client's certificate from a CA that it trusts (cert=PATH&key=PATH), or its port \
         doesn't speak TLS (write zookeeper for zookeeper+tls)"
    } else {
        "or the port is one for TLS (write zookeeper+tls for zookeeper) or of another program"
    }
}

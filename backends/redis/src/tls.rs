use lockwright_core::ErrorKind;
#[cfg(not(feature = "tls"))]
use lockwright_core::backend_util::tls::not_in_this_build;
#[cfg(feature = "tls")]
use lockwright_core::backend_util::tls::pem;
use lockwright_core::backend_util::tls::{self, Files, Refusal};
use redis::ConnectionInfo;
#[cfg(feature = "tls")]
use redis::{ClientTlsConfig, ConnectionAddr, TlsCertificates};

#[cfg(feature = "tls")]
pub(crate) fn secured(
    servers: Vec<ConnectionInfo>,
    files: &Files,
) -> Result<Vec<ConnectionInfo>, String> {
    // The client library panics without a crypto provider.
    tls::choose_provider();
    let mut certificates = TlsCertificates { client_tls: None, root_cert: None };
    if let Some((certificate, key)) = &files.client {
        let client_cert = pem("cert", certificate, "CERTIFICATE")?;
        let client_key = pem("key", key, "PRIVATE KEY")?;
        certificates.client_tls = Some(ClientTlsConfig { client_cert, client_key });
    }
    if let Some(authority) = &files.authority {
        certificates.root_cert = Some(pem("ca", authority, "CERTIFICATE")?);
    }
    let secure = |server: ConnectionInfo| {
        let ConnectionAddr::Tcp(host, port) = server.addr().clone() else { return Ok(server) };
        let address = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
        redis::Client::build_with_tls(server.set_addr(address), certificates.clone())
            .map(|client| client.get_connection_info().clone())
            .map_err(|_| "a file of TLS (ca, cert, key) has something else than PEM".to_owned())
    };
    servers.into_iter().map(secure).collect()
}

#[cfg(not(feature = "tls"))]
pub(crate) fn secured(_: Vec<ConnectionInfo>, _: &Files) -> Result<Vec<ConnectionInfo>, String> {
    Err(not_in_this_build("tls"))
}

pub(crate) fn refusal(cause: &str) -> Option<(ErrorKind, &'static str)> {
    const OWN: [Refusal; 1] = [(
        "InvalidContentType",
        ErrorKind::InvalidConfig,
        "the server does not use TLS on this port; use redis instead of rediss, or its TLS port",
    )];
    tls::refusal(cause, &OWN)
}

//! TLS: which certificates are trusted, and which is shown.

use lockwright_core::ErrorKind;
use redis::ConnectionInfo;
#[cfg(feature = "tls")]
use redis::{ClientTlsConfig, ConnectionAddr, TlsCertificates};

/// The files that a URL names.
#[derive(Debug, Default)]
#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "without TLS a URL that names them is refused")
)]
pub(crate) struct Files {
    /// With the certificates of those who may sign a server's. Else the system's are trusted.
    pub(crate) authority: Option<String>,
    /// With a client's certificate and its key.
    pub(crate) client: Option<(String, String)>,
}

impl Files {
    pub(crate) fn take(
        parameter: impl FnMut(&str) -> Option<String>,
        secured: bool,
    ) -> Result<Self, String> {
        let [authority, certificate, key] = ["ca", "cert", "key"].map(parameter);
        let is_empty = |file: &Option<String>| file.as_deref() == Some("");
        if [&authority, &certificate, &key].into_iter().any(is_empty) {
            return Err("there is a parameter for a file of TLS that names none".to_owned());
        }
        if !secured && (authority.is_some() || certificate.is_some() || key.is_some()) {
            return Err("there are parameters for TLS (ca, cert, key), and the URL doesn't begin \
                        with rediss"
                .to_owned());
        }
        let client = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err("there is a cert without its key".to_owned()),
            (None, Some(_)) => return Err("there is a key without its cert".to_owned()),
        };
        Ok(Self { authority, client })
    }
}

/// The same servers, reached by TLS.
#[cfg(feature = "tls")]
pub(crate) fn secured(
    servers: Vec<ConnectionInfo>,
    files: &Files,
) -> Result<Vec<ConnectionInfo>, String> {
    // The client library panics without a default, and leaves it open which. Whoever has chosen
    // another keeps it. (The drivers of SQL databases hand theirs over and need no default.)
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificates = TlsCertificates {
        client_tls: match &files.client {
            Some((certificate, key)) => Some(ClientTlsConfig {
                client_cert: pem("cert", certificate, "CERTIFICATE")?,
                client_key: pem("key", key, "PRIVATE KEY")?,
            }),
            None => None,
        },
        root_cert: match &files.authority {
            Some(authority) => Some(pem("ca", authority, "CERTIFICATE")?),
            None => None,
        },
    };
    let secure = |server: ConnectionInfo| {
        let (host, port) = match server.addr() {
            ConnectionAddr::Tcp(host, port) => (host.clone(), *port),
            _ => return Ok(server),
        };
        let address = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
        redis::Client::build_with_tls(server.set_addr(address), certificates.clone())
            .map(|client| client.get_connection_info().clone())
            .map_err(|_| "a file of TLS (ca, cert, key) has something else than PEM".to_owned())
    };
    servers.into_iter().map(secure).collect()
}

/// The contents of a file, with a look at whether it is what it should be.
#[cfg(feature = "tls")]
fn pem(parameter: &str, file: &str, kind: &str) -> Result<Vec<u8>, String> {
    let text = std::fs::read(file)
        .map_err(|cause| format!("{parameter}={file} can't be read ({cause})"))?;
    let ending = format!("{kind}-----");
    let has = text.windows(ending.len()).any(|window| window == ending.as_bytes());
    if has { Ok(text) } else { Err(format!("{parameter}={file} has no {kind} in PEM")) }
}

/// The same servers, reached by TLS.
#[cfg(not(feature = "tls"))]
pub(crate) fn secured(_: Vec<ConnectionInfo>, _: &Files) -> Result<Vec<ConnectionInfo>, String> {
    Err("TLS isn't in this build; enable the feature `tls` of the crate `lockwright` (or \
         `lockwright-cli`)"
        .to_owned())
}

/// What the handshake ended by, if that is why there is no connection.
pub(crate) fn refusal(cause: &str) -> Option<(ErrorKind, &'static str)> {
    const REASONS: [(&str, ErrorKind, &str); 9] = [
        (
            "UnknownIssuer",
            ErrorKind::InvalidConfig,
            "nobody who is trusted here signed its certificate; name the file with its CA's \
             certificate in the URL, as ca=PATH",
        ),
        (
            "not valid for",
            ErrorKind::InvalidConfig,
            "its certificate is for another host; connect by a name that stands in it",
        ),
        (
            "expired",
            ErrorKind::InvalidConfig,
            "its certificate has expired; give the server a new one",
        ),
        ("invalid peer certificate", ErrorKind::InvalidConfig, "its certificate can't be trusted"),
        (
            "CertificateRequired",
            ErrorKind::Denied,
            "it wants a client's certificate; name one in the URL, as cert=PATH&key=PATH",
        ),
        (
            "InvalidContentType",
            ErrorKind::InvalidConfig,
            "it does not speak TLS; write redis for rediss, or take its port for TLS",
        ),
        ("UnknownCA", ErrorKind::Denied, "it does not trust who signed the client's certificate"),
        ("ertificate", ErrorKind::Denied, "it refuses the client's certificate"),
        ("fatal alert", ErrorKind::Denied, "it ended the TLS handshake"),
    ];
    let found = REASONS.iter().find(|(part, ..)| cause.contains(part));
    found.map(|(_, kind, what)| (*kind, *what))
}

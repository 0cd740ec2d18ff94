//! TLS settings and errors of all backends.

use std::net::IpAddr;

use crate::ErrorKind;

/// Returns the error text for TLS in a build without `feature`.
pub fn not_in_this_build(feature: &str) -> String {
    format!(
        "TLS to such servers isn't in this build; enable the feature `{feature}` of the crate \
         `lockwright` (of the command: `lockwright/{feature}`)"
    )
}

/// Installs ring as the process's crypto provider, if none is installed. Without one, most client
/// libraries panic in a build with several.
pub fn choose_provider() {
    #[cfg(feature = "tls")]
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns whether a TLS certificate can contain this host.
#[cfg(feature = "tls")]
pub fn is_certifiable(host: &str) -> bool {
    rustls::pki_types::ServerName::try_from(host).is_ok()
}

/// Returns whether an endpoint's host is this machine.
pub fn is_local(endpoint: &str) -> bool {
    let host = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// The TLS files that a URL's parameters name.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// The trusted CAs' certificates. If not set, the system's CAs are trusted.
    pub authority: Option<String>,
    /// The client's certificate and key.
    pub client: Option<(String, String)>,
}

impl Files {
    /// Takes the files from a URL's parameters.
    ///
    /// # Errors
    /// A sentence about an empty or missing parameter. If the URL isn't for TLS (`secured` is
    /// false), any TLS parameter is an error, whose text ends with `unsecured`.
    pub fn take(
        parameter: impl FnMut(&str) -> Option<String>,
        secured: bool,
        unsecured: &str,
    ) -> Result<Self, String> {
        let [authority, certificate, key] = ["ca", "cert", "key"].map(parameter);
        let is_empty = |file: &Option<String>| file.as_deref() == Some("");
        if [&authority, &certificate, &key].into_iter().any(is_empty) {
            return Err(
                "a TLS parameter (ca, cert or key) is empty; give it the path of a file".to_owned()
            );
        }
        if !secured && (authority.is_some() || certificate.is_some() || key.is_some()) {
            return Err(format!("the URL has TLS parameters (ca, cert, key), but {unsecured}"));
        }
        let client = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err("cert is set without key; add key=PATH".to_owned()),
            (None, Some(_)) => return Err("key is set without cert; add cert=PATH".to_owned()),
        };
        Ok(Self { authority, client })
    }
}

/// Reads the PEM file of a URL's `parameter`, which must contain an item of this `kind`.
///
/// # Errors
/// A sentence with the parameter and the cause.
pub fn pem(parameter: &str, file: &str, kind: &str) -> Result<Vec<u8>, String> {
    let text = std::fs::read(file)
        .map_err(|cause| format!("{parameter}={file} can't be read ({cause})"))?;
    let ending = format!("{kind}-----");
    let has = text.windows(ending.len()).any(|window| window == ending.as_bytes());
    if has { Ok(text) } else { Err(format!("{parameter}={file} has no {kind} in PEM")) }
}

/// A part of rustls's error text, the kind of error, and the reason to report.
pub type Refusal = (&'static str, ErrorKind, &'static str);

const BY_THE_CLIENT: &[Refusal] = &[
    (
        "UnknownIssuer",
        ErrorKind::InvalidConfig,
        "nobody who is trusted here signed its certificate; name the file with its CA's \
         certificate in the URL, as ca=PATH",
    ),
    (
        "not valid for",
        ErrorKind::InvalidConfig,
        "its certificate is for another host; connect by a name in the certificate",
    ),
    ("expired", ErrorKind::InvalidConfig, "its certificate has expired; give the server a new one"),
    ("invalid peer certificate", ErrorKind::InvalidConfig, "its certificate can't be trusted"),
    (
        "CertificateRequired",
        ErrorKind::Denied,
        "it requires a client certificate; set it in the URL, as cert=PATH&key=PATH",
    ),
];

/// The server's reasons for a rejection, from specific to general: the first match counts.
const BY_THE_SERVER: &[Refusal] = &[
    ("UnknownCA", ErrorKind::Denied, "it does not trust the issuer of the client's certificate"),
    ("ertificate", ErrorKind::Denied, "it refuses the client's certificate"),
    ("fatal alert", ErrorKind::Denied, "it ended the TLS handshake"),
];

/// Returns the kind and reason of a failed handshake; `None` for an unknown cause. The backend's
/// `own` reasons precede the server's.
pub fn refusal(cause: &str, own: &[Refusal]) -> Option<(ErrorKind, &'static str)> {
    let reasons = BY_THE_CLIENT.iter().chain(own).chain(BY_THE_SERVER);
    reasons.filter(|(part, ..)| cause.contains(part)).map(|(_, kind, what)| (*kind, *what)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_own_words_come_before_what_is_more_general() {
        let own = [("BadCertificate", ErrorKind::Denied, "own")];
        let words = |cause| refusal(cause, &own).map(|(_, what)| what);
        assert_eq!(words("received fatal alert: BadCertificate"), Some("own"));
        let general = refusal("received fatal alert: BadCertificate", &[]).unwrap().1;
        assert_eq!(general, "it refuses the client's certificate");
        assert!(words("invalid peer certificate: UnknownIssuer").unwrap().contains("ca=PATH"));
        assert_eq!(words("connection refused"), None);
    }

    #[test]
    fn remote_address_is_recognized() {
        for local in ["http://127.0.0.1:1", "https://[::1]:2", "localhost:3", "127.9.9.9:4"] {
            assert!(is_local(local), "{local}");
        }
        for network in ["10.0.0.1:1", "http://[fe80::1]:2", "https://etcd.example:3"] {
            assert!(!is_local(network), "{network}");
        }
    }

    #[test]
    fn files_go_together_and_with_tls_only() {
        let take = |given: &[(&str, &str)], secured| {
            let parameter = |name: &str| {
                given.iter().find(|(key, _)| *key == name).map(|(_, file)| (*file).to_owned())
            };
            Files::take(parameter, secured, "it isn't used")
        };
        let files = take(&[("ca", "a"), ("cert", "c"), ("key", "k")], true).unwrap();
        assert_eq!(files.authority.as_deref(), Some("a"));
        assert_eq!(files.client, Some(("c".to_owned(), "k".to_owned())));
        assert!(take(&[("ca", "a")], false).unwrap_err().ends_with("but it isn't used"));
        assert!(take(&[("cert", "c")], true).unwrap_err().contains("add key=PATH"));
        assert!(take(&[("key", "k")], true).unwrap_err().contains("add cert=PATH"));
        assert!(take(&[("ca", "")], true).unwrap_err().contains("is empty"));
    }
}

//! What backends that reach their servers by TLS have in common, whatever their client library: the
//! files that a URL names, who does the cryptography, and what a handshake ended by.

use std::net::IpAddr;

use crate::error::ErrorKind;

/// What to say where TLS is wanted and the feature of the crate `lockwright` that brings it isn't
/// compiled in.
pub fn not_in_this_build(feature: &str) -> String {
    format!(
        "TLS to such servers isn't in this build; enable the feature `{feature}` of the crate \
         `lockwright` (of the command: `lockwright/{feature}`)"
    )
}

/// Chooses who does the cryptography of this process, ring, unless somebody has chosen. Most client
/// libraries leave that open, for a part of what they do at least, and panic when it wasn't done in a
/// build that has several providers: one of them brings a second for all. Without the feature `tls`
/// of this crate there is nothing to choose.
pub fn choose_provider() {
    #[cfg(feature = "tls")]
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Whether there can be a certificate for a host of this name, or with this address.
#[cfg(feature = "tls")]
pub fn is_certifiable(host: &str) -> bool {
    rustls::pki_types::ServerName::try_from(host).is_ok()
}

/// Whether a host is on this machine, by its address: what goes there isn't read by anybody on the
/// way. There is a port behind it, and there may be a scheme before it.
pub fn is_local(endpoint: &str) -> bool {
    let host = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// The files that a URL names by its parameters `ca`, `cert` and `key`.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// With the certificates of those who may sign a server's. Else the system's are trusted.
    pub authority: Option<String>,
    /// With a client's certificate and its key.
    pub client: Option<(String, String)>,
}

impl Files {
    /// Takes them from a URL's parameters.
    ///
    /// # Errors
    /// What is wrong, in a sentence: a parameter that names no file, a certificate without its key,
    /// or, where it isn't `secured`, that there are any. `unsecured` goes on after "and".
    pub fn take(
        parameter: impl FnMut(&str) -> Option<String>,
        secured: bool,
        unsecured: &str,
    ) -> Result<Self, String> {
        let [authority, certificate, key] = ["ca", "cert", "key"].map(parameter);
        let is_empty = |file: &Option<String>| file.as_deref() == Some("");
        if [&authority, &certificate, &key].into_iter().any(is_empty) {
            return Err("there is a parameter for a file of TLS that names none".to_owned());
        }
        if !secured && (authority.is_some() || certificate.is_some() || key.is_some()) {
            return Err(format!("there are parameters for TLS (ca, cert, key), and {unsecured}"));
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

/// The contents of a file, with a look at whether it is what it should be: `CERTIFICATE`, or
/// `PRIVATE KEY` of any kind.
///
/// # Errors
/// What is wrong, in a sentence.
pub fn pem(parameter: &str, file: &str, kind: &str) -> Result<Vec<u8>, String> {
    let text = std::fs::read(file)
        .map_err(|cause| format!("{parameter}={file} can't be read ({cause})"))?;
    let ending = format!("{kind}-----");
    let has = text.windows(ending.len()).any(|window| window == ending.as_bytes());
    if has { Ok(text) } else { Err(format!("{parameter}={file} has no {kind} in PEM")) }
}

/// A part of rustls's text for why a handshake ended, the kind of error that it is, and what to change.
pub type Refusal = (&'static str, ErrorKind, &'static str);

/// Why the client refuses a server.
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
        "its certificate is for another host; connect by a name that stands in it",
    ),
    ("expired", ErrorKind::InvalidConfig, "its certificate has expired; give the server a new one"),
    ("invalid peer certificate", ErrorKind::InvalidConfig, "its certificate can't be trusted"),
    (
        "CertificateRequired",
        ErrorKind::Denied,
        "it wants a client's certificate; name one in the URL, as cert=PATH&key=PATH",
    ),
];

/// What a server says that refuses the client, the general after the special.
const BY_THE_SERVER: &[Refusal] = &[
    ("UnknownCA", ErrorKind::Denied, "it does not trust who signed the client's certificate"),
    ("ertificate", ErrorKind::Denied, "it refuses the client's certificate"),
    ("fatal alert", ErrorKind::Denied, "it ended the TLS handshake"),
];

/// What a handshake ended by, if that is why there is no connection. `own` is what only this kind of
/// server says, or what to change only there; it comes before what is more general.
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
        let said = |cause| refusal(cause, &own).map(|(_, what)| what);
        assert_eq!(said("received fatal alert: BadCertificate"), Some("own"));
        let general = refusal("received fatal alert: BadCertificate", &[]).unwrap().1;
        assert_eq!(general, "it refuses the client's certificate");
        assert!(said("invalid peer certificate: UnknownIssuer").unwrap().contains("ca=PATH"));
        assert_eq!(said("connection refused"), None);
    }

    #[test]
    fn what_leaves_the_machine_is_known_by_its_address() {
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
        assert!(take(&[("ca", "a")], false).unwrap_err().ends_with("and it isn't used"));
        assert!(take(&[("cert", "c")], true).unwrap_err().contains("without its key"));
        assert!(take(&[("key", "k")], true).unwrap_err().contains("without its cert"));
        assert!(take(&[("ca", "")], true).unwrap_err().contains("names none"));
    }
}

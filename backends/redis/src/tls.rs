//! TLS: which certificates are trusted, and which is shown.

use redis::ConnectionInfo;

/// The files that a URL names.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// With the certificates of those who may sign a server's. Else the system's are trusted.
    pub(crate) authority: Option<String>,
    /// With a client's certificate and its key.
    pub(crate) client: Option<(String, String)>,
}

impl Files {
    pub(crate) fn take(
        mut parameter: impl FnMut(&str) -> Option<String>,
        secured: bool,
    ) -> Result<Self, String> {
        let [authority, certificate, key] = ["ca", "cert", "key"].map(|name| parameter(name));
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
pub(crate) fn secured(_: Vec<ConnectionInfo>, _: &Files) -> Result<Vec<ConnectionInfo>, String> {
    Err("TLS isn't built in: there is no support for rediss".to_owned())
}

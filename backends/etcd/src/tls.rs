//! TLS: which certificates are trusted, and which is shown.

use etcd_client::ConnectOptions;
use lockwright_core::ErrorKind;
#[cfg(not(feature = "tls"))]
use lockwright_core::kit::tls::not_in_this_build;
#[cfg(feature = "tls")]
use lockwright_core::kit::tls::pem;
use lockwright_core::kit::tls::{self, Files, Refusal};

/// How a URL wants its members to be reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Security {
    secured: bool,
    files: Files,
}

impl Security {
    pub(crate) fn take(
        parameter: impl FnMut(&str) -> Option<String>,
        secured: bool,
    ) -> Result<Self, String> {
        let files = Files::take(parameter, secured, "the members aren't reached by https:")?;
        Ok(Self { secured, files })
    }

    /// Whether the members are reached by TLS.
    pub(crate) fn is_secured(&self) -> bool {
        self.secured
    }

    /// Whether a client's certificate is shown.
    pub(crate) fn shows_certificate(&self) -> bool {
        self.files.client.is_some()
    }

    /// The options with what these files say.
    #[cfg(feature = "tls")]
    pub(crate) fn apply(&self, options: ConnectOptions) -> Result<ConnectOptions, String> {
        use etcd_client::{Certificate, Identity, TlsOptions};

        if !self.secured {
            return Ok(options);
        }
        let mut tls = TlsOptions::new();
        tls = match &self.files.authority {
            Some(authority) => {
                tls.ca_certificate(Certificate::from_pem(pem("ca", authority, "CERTIFICATE")?))
            }
            None => tls.with_native_roots(),
        };
        if let Some((certificate, key)) = &self.files.client {
            let certificate = pem("cert", certificate, "CERTIFICATE")?;
            tls = tls.identity(Identity::from_pem(certificate, pem("key", key, "PRIVATE KEY")?));
        }
        Ok(options.with_tls(tls))
    }

    /// The options with what these files say.
    #[cfg(not(feature = "tls"))]
    pub(crate) fn apply(&self, options: ConnectOptions) -> Result<ConnectOptions, String> {
        if !self.secured {
            return Ok(options);
        }
        Err(not_in_this_build("tls"))
    }
}

/// What is to be asked about TLS where a connection ended for no reason that was heard.
pub(crate) fn doubt(endpoint: &str) -> &'static str {
    if endpoint.starts_with("https") {
        "does it speak TLS (if not, write http for https), or want a client's certificate (named in \
         the URL, as cert=PATH&key=PATH)"
    } else {
        "does it speak TLS only (https)"
    }
}

/// What the handshake ended by, if that is why there is no connection.
pub(crate) fn refusal(cause: &str) -> Option<(ErrorKind, &'static str)> {
    const OWN: [Refusal; 4] = [
        (
            "InvalidContentType",
            ErrorKind::InvalidConfig,
            "it does not speak TLS; write http for https",
        ),
        (
            "handshake eof",
            ErrorKind::Unavailable,
            "it ended the TLS handshake; if it does not speak TLS, write http for https; if it wants a \
             client's certificate, name one in the URL, as cert=PATH&key=PATH",
        ),
        // The reason that it gave may be lost.
        (
            "connection closed",
            ErrorKind::Unavailable,
            "it hung up after the TLS handshake; if it wants a client's certificate, name one in \
             the URL, as cert=PATH&key=PATH",
        ),
        // What older ones say to who shows none, too.
        (
            "BadCertificate",
            ErrorKind::Denied,
            "it wants a client's certificate from somebody whom it trusts; name one in the URL, as \
             cert=PATH&key=PATH",
        ),
    ];
    tls::refusal(cause, &OWN)
}

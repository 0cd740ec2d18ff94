use etcd_client::ConnectOptions;
use lockwright_core::ErrorKind;
use lockwright_core::backend_util::tls::{self, Files, Refusal};

#[derive(Debug, Clone, Default)]
pub(crate) struct Security {
    pub(crate) is_secured: bool,
    pub(crate) files: Files,
}

impl Security {
    pub(crate) fn take(
        parameter: impl FnMut(&str) -> Option<String>,
        is_secured: bool,
    ) -> Result<Self, String> {
        let files = Files::take(parameter, is_secured, "the members aren't reached by https:")?;
        Ok(Self { is_secured, files })
    }

    pub(crate) fn apply(&self, options: ConnectOptions) -> Result<ConnectOptions, String> {
        if self.is_secured { self.add_tls(options) } else { Ok(options) }
    }

    #[cfg(feature = "tls")]
    fn add_tls(&self, options: ConnectOptions) -> Result<ConnectOptions, String> {
        use etcd_client::{Certificate, Identity, TlsOptions};
        use tls::pem;

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

    #[cfg(not(feature = "tls"))]
    fn add_tls(&self, _: ConnectOptions) -> Result<ConnectOptions, String> {
        Err(tls::not_in_this_build("tls"))
    }
}

pub(crate) fn doubt(endpoint: &str) -> &'static str {
    if endpoint.starts_with("https") {
        "does it speak TLS (if not, write http for https), or require a client's certificate (in the \
         URL, as cert=PATH&key=PATH)"
    } else {
        "does it speak TLS only (https)"
    }
}

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
            "it ended the TLS handshake; if it does not speak TLS, write http for https; if it \
             requires a client's certificate, add cert=PATH&key=PATH to the URL",
        ),
        // Only this error remains if the server's alert, with the reason, is lost.
        (
            "connection closed",
            ErrorKind::Unavailable,
            "it closed the connection after the TLS handshake; if it requires a client's certificate, add \
             cert=PATH&key=PATH to the URL",
        ),
        // Older etcd versions send this alert even to a client without a certificate.
        (
            "BadCertificate",
            ErrorKind::Denied,
            "it requires a client's certificate from a CA that it trusts; add \
             cert=PATH&key=PATH to the URL",
        ),
    ];
    tls::refusal(cause, &OWN)
}

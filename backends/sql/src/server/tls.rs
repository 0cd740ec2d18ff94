use std::borrow::Cow;
use std::io;
use std::net::IpAddr;

use lockwright_core::Error;
/// To be called before TLS is used: the drivers verify certificates with the default crypto
/// provider.
pub(crate) use lockwright_core::backend_util::tls::choose_provider;

pub(crate) fn refusal(cause: &sqlx::Error, is_by_file: bool) -> Option<Error> {
    match cause {
        sqlx::Error::Tls(cause) => Some(Error::invalid_config(unusable(&cause.to_string()))),
        // The URL names no socket file, so the file is a certificate or a key.
        sqlx::Error::Io(cause) if !is_by_file && is_of_a_file(cause) => {
            Some(Error::invalid_config(
                "a file with a certificate or a key, which the URL names, can't be opened",
            ))
        }
        sqlx::Error::Io(cause) => distrusted(cause),
        // A retry may succeed: `caching_sha2_password` fails this way only until the user's first login
        // over TLS.
        sqlx::Error::Configuration(cause) if cause.to_string().contains("RSA auth") => {
            Some(Error::unavailable(
                "the server takes this user's password over TLS only; turn TLS on there, and build \
                 with the feature `tls` of the crate `lockwright` (of the command: `lockwright/tls`)",
            ))
        }
        _ => None,
    }
}

fn unusable(cause: &str) -> &'static str {
    if cause.contains("without TLS support") {
        "the URL requires TLS, which isn't in this build; enable the feature `tls` of the crate \
         `lockwright` (of the command: `lockwright/tls`)"
    } else if cause.contains("does not support TLS") {
        "the URL requires TLS, which the server doesn't support; turn it on there, or write \
         another \
         sslmode (ssl-mode for MySQL)"
    } else {
        "TLS can't be set up as the URL says; check its certificates, its key and its host"
    }
}

fn is_of_a_file(cause: &io::Error) -> bool {
    const NO_ACCESS: i32 = 13;

    matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
        || cause.raw_os_error() == Some(NO_ACCESS)
}

fn distrusted(cause: &io::Error) -> Option<Error> {
    if cause.kind() != io::ErrorKind::InvalidData {
        return None;
    }
    let text = cause.to_string();
    let message = if text.contains("UnknownIssuer") {
        "the server's certificate isn't signed by a CA that this machine trusts; name the file \
         with its CA's certificate in the URL (sslrootcert for PostgreSQL, ssl-ca for MySQL)"
    } else if text.contains("not valid for") {
        "the server's certificate is for another host; connect by a name that the certificate \
         contains"
    } else if text.contains("certificate") {
        "the server's certificate can't be trusted"
    } else {
        return Some(Error::unavailable("the TLS handshake with the server failed"));
    };
    Some(Error::invalid_config(message))
}

pub(crate) const ENCRYPTED_ONLY: &str = if cfg!(feature = "tls") {
    "the server takes this user over TLS only; write sslmode=verify-full (for MySQL \
     ssl-mode=VERIFY_IDENTITY) in the URL"
} else {
    "the server takes this user over TLS only, which isn't in this build; enable the feature `tls` \
     of the crate `lockwright` (of the command: `lockwright/tls`)"
};

#[cfg(feature = "mysql")]
pub(crate) const REFUSED_OR_ENCRYPTED_ONLY: &str = if cfg!(feature = "tls") {
    "the server refuses the user or the password, or takes them over TLS only; check all three in \
     the URL"
} else {
    "the server refuses the user or the password, or takes them over TLS only; check both in the \
     URL, and whether TLS is needed, for which this build lacks the feature `tls`"
};

/// Removes PEM data such as private keys: the driver quotes variables that it can't parse.
pub(crate) fn without_pem(text: &str) -> Cow<'_, str> {
    match text.split_once("-----BEGIN") {
        Some((before, _)) => format!("{before}***").into(),
        None => text.into(),
    }
}

pub(crate) fn is_on_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => {
            let name = host.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_address_is_recognized() {
        for host in ["localhost", "LOCALHOST.", "db.localhost", "127.1.2.3", "::1", "[::1]"] {
            assert!(is_on_this_machine(host), "{host}");
        }
        assert!(is_on_this_machine("::ffff:127.0.0.1"));
        for host in ["db", "localhost.example.org", "10.0.0.1", "0.0.0.0", "fe80::1", ""] {
            assert!(!is_on_this_machine(host), "{host}");
        }
    }

    #[test]
    fn quoted_certificate_text_is_truncated() {
        let quoted = "Invalid certificate -----BEGIN PRIVATE KEY-----\nsecret\n-----END";
        assert_eq!(without_pem(quoted), "Invalid certificate ***");
        assert_eq!(without_pem("Invalid certificate file: /x"), "Invalid certificate file: /x");
    }
}

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::{Account, Program, Result, folder};

pub(crate) const AUTHORITY: &str = "ca.crt";

pub(crate) const CERTIFICATE: &str = "server.crt";
pub(crate) const KEY: &str = "server.key";

/// OpenSSL's defaults differ between systems.
const SETTINGS: &str = "[req]\n\
                        distinguished_name = subject\n\
                        [subject]\n\
                        [authority]\n\
                        basicConstraints = critical, CA:TRUE\n\
                        keyUsage = critical, keyCertSign\n\
                        [server]\n\
                        basicConstraints = critical, CA:FALSE\n\
                        subjectAltName = DNS:localhost, IP:127.0.0.1\n";

#[derive(Debug)]
pub struct Certificates(TempDir);

impl Certificates {
    /// A CA and a certificate for `localhost` and `127.0.0.1`, valid for two days.
    pub fn new() -> Result<Self> {
        let folder = folder::temporary("certificates", None)?;
        make(folder.path(), None)?;
        Ok(Self(folder))
    }

    pub fn authority(&self) -> PathBuf {
        self.0.path().join(AUTHORITY)
    }

    pub fn certificate(&self) -> PathBuf {
        self.0.path().join(CERTIFICATE)
    }

    pub fn key(&self) -> PathBuf {
        self.0.path().join(KEY)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Tls {
    pub(crate) is_on: bool,
    pub(crate) wants_client_certificates: bool,
    pub(crate) certificates: Option<Arc<Certificates>>,
}

impl Tls {
    pub(crate) fn make_certificates(&mut self) -> Result<()> {
        if self.is_on && self.certificates.is_none() {
            self.certificates = Some(Arc::new(Certificates::new()?));
        }
        Ok(())
    }

    pub(crate) fn use_ca_of(&mut self, other: &Self) {
        if other.is_on {
            self.is_on = true;
            self.certificates.clone_from(&other.certificates);
        }
    }

    pub(crate) fn files(&self) -> &Certificates {
        self.certificates.as_ref().expect("it speaks TLS")
    }
}

pub(crate) fn make(folder: &Path, account: Option<Account>) -> Result<()> {
    folder::write(&folder.join("tls.cnf"), SETTINGS, account)?;
    // Clients find the right CA for a certificate by its name.
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config tls.cnf";
    for command in [
        format!(
            "req -new -x509 {new_key} -extensions authority -days 2 -subj /CN={name} \
             -keyout ca.key -out {AUTHORITY}"
        ),
        format!("req -new {new_key} -subj /CN=localhost -keyout {KEY} -out server.csr"),
        format!(
            "x509 -req -in server.csr -CA {AUTHORITY} -CAkey ca.key -set_serial 2 -days 2 \
             -extfile tls.cnf -extensions server -out {CERTIFICATE}"
        ),
    ] {
        Program::new("openssl", "openssl")
            .args(command.split_whitespace())
            .run_as(account)
            .run(folder, "")?;
    }
    Ok(())
}

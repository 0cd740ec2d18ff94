use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Error, Result};

/// The login for a server. Its `Debug` text hides the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user name. `None` is the user in the URL.
    pub username: Option<String>,
    /// The password or access token.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

type Provided = Pin<Box<dyn Future<Output = Result<Credentials>> + Send>>;

/// A source of [`Credentials`], for passwords that rotate and tokens that expire.
///
/// A backend calls the provider for each connection that it opens, within the time limit for
/// connecting. The call may be cancelled. If fetching a token takes long, cache it in the provider.
///
/// ```
/// use lockwright_core::{CredentialProvider, Credentials};
///
/// let provider = CredentialProvider::new(|| async {
///     let password = std::fs::read_to_string("/run/secrets/password")?;
///     Ok::<_, std::io::Error>(Credentials { username: None, password })
/// });
/// ```
#[derive(Clone)]
pub struct CredentialProvider(Arc<dyn Fn() -> Provided + Send + Sync>);

impl CredentialProvider {
    /// Creates a provider from an async function. Its errors appear in logs, so they must contain
    /// no secret. Each counts as [`Unavailable`](crate::ErrorKind::Unavailable), which the client
    /// retries.
    pub fn new<F, P, E>(provide: F) -> Self
    where
        F: Fn() -> P + Send + Sync + 'static,
        P: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: fmt::Display,
    {
        Self(Arc::new(move || {
            let provided = provide();
            Box::pin(async move {
                provided.await.map_err(|cause| {
                    Error::unavailable(format!(
                        "cannot get the credentials: {cause}; check the provider"
                    ))
                })
            })
        }))
    }

    /// Returns the credentials for a new connection.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable): the provider failed.
    ///
    /// # Cancel safety
    /// Dropping the future drops the provider's future.
    pub async fn credentials(&self) -> Result<Credentials> {
        (self.0)().await
    }
}

impl fmt::Debug for CredentialProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialProvider")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn debug_text_hides_the_password() {
        let credentials = Credentials { username: None, password: "hush".to_owned() };
        assert!(!format!("{credentials:?}").contains("hush"));
    }

    #[tokio::test]
    async fn failing_provider_is_unavailable() {
        let provider = CredentialProvider::new(|| async { Err("no vault") });
        let error = provider.credentials().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("no vault"), "{error}");
    }
}

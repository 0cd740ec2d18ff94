//! What must be installed for the tests, and its installation.
pub(crate) fn provide() -> Result<(), String> {
    Ok(())
}

//! The parts of backends' URLs. Errors are sentences without a full stop or a secret.

use std::collections::BTreeMap;

use super::percent;

/// A URL's parameters, percent-decoded.
#[derive(Debug)]
pub struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Parses `name=value&…`.
    ///
    /// # Errors
    /// A parameter isn't in `known`, is listed twice, or is badly encoded.
    pub fn parse(query: &str, known: &[&str]) -> Result<Self, String> {
        let mut parameters = BTreeMap::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if !known.contains(&name) {
                // Without a `=`, the text isn't quoted, because it may be a part of a password.
                let name = if parameter.contains('=') { name } else { "***" };
                let known = known.join(", ");
                return Err(format!("the parameter {name:?} is unknown (use {known})"));
            }
            let value = percent::decode(value)
                .ok_or_else(|| format!("{name} has a % that isn't percent-encoded as %25"))?;
            if parameters.insert(name.to_owned(), value).is_some() {
                return Err(format!("the parameter {name:?} is listed twice"));
            }
        }
        Ok(Self(parameters))
    }

    /// Removes a parameter, and returns its value.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }
}

/// Parses `user:password`, and decodes both.
///
/// # Errors
/// The user is empty, the password is missing, or a part is badly encoded.
pub fn login(text: &str) -> Result<(String, String), String> {
    let (user, password) = text.split_once(':').ok_or("a user without a password precedes an @")?;
    let decoded = |part| {
        percent::decode(part)
            .ok_or("the user or the password has a % that isn't percent-encoded as %25")
    };
    let (user, password) = (decoded(user)?, decoded(password)?);
    if user.is_empty() {
        return Err("the user is missing before the password".to_owned());
    }
    Ok((user, password))
}

/// Parses `host[:port]`. Without a default port, the port must be given. An IPv6 address keeps its
/// brackets.
///
/// # Errors
/// The host is missing, or the port is invalid. Without a login, the port may be a password, so the
/// error doesn't quote it.
pub fn host(text: &str, default_port: Option<u16>, has_login: bool) -> Result<(&str, u16), String> {
    let (host, port) = split_port(text);
    if host.is_empty() {
        return Err("the host is missing".to_owned());
    }
    let Some(port) = port.filter(|port| !port.is_empty()) else {
        return default_port
            .map(|port| (host, port))
            .ok_or_else(|| "the port is missing".to_owned());
    };
    match port.parse() {
        Ok(port) if port > 0 => Ok((host, port)),
        _ if has_login => Err(format!("the port {port:?} is not a number from 1 to 65535")),
        _ => Err("the text after a host is not a port from 1 to 65535 (a password must be \
                  followed by an @)"
            .to_owned()),
    }
}

/// Parses `host[:port],…`.
///
/// # Errors
/// Those of [`host`], or a host is listed twice.
pub fn hosts(
    text: &str,
    default_port: Option<u16>,
    has_login: bool,
) -> Result<Vec<(&str, u16)>, String> {
    let mut hosts = Vec::new();
    for text in text.split(',') {
        let found = host(text, default_port, has_login)?;
        if hosts.contains(&found) {
            return Err(format!("the host {}:{} is listed twice", found.0, found.1));
        }
        hosts.push(found);
    }
    Ok(hosts)
}

fn split_port(address: &str) -> (&str, Option<&str>) {
    let end = match address.rfind(']') {
        Some(bracket) => bracket + 1,
        None => address.find(':').unwrap_or(address.len()),
    };
    let (host, port) = address.split_at(end);
    (host, port.strip_prefix(':'))
}

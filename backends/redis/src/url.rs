//! Parsing of URLs. The `redis` crate's parser takes one host, and misreads passwords with special
//! characters.

#[cfg(target_os = "linux")]
use std::time::Duration;

use lockwright_core::backend_util::tls::Files;
use lockwright_core::backend_util::url::{self, Parameters};
use lockwright_core::{Error, duration, redact};
use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use crate::replicas::Replicas;
use crate::tls;
use crate::topology::Topology;

const SERVER_PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

const COMMON: [&str; 3] = ["prefix", "replicas", "replica_timeout"];
const TLS: [&str; 3] = ["ca", "cert", "key"];
const SENTINEL: [&str; 2] = ["sentinel_user", "sentinel_password"];

/// Returns every parameter except a socket's `user` and `pass`, which are masked.
pub(crate) fn parameters() -> Vec<&'static str> {
    [&COMMON[..], &TLS, &SENTINEL, &["db"]].concat()
}

pub(crate) type Contents = (Topology, String, Option<Replicas>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    Socket,
    Sentinel,
    Cluster,
}

impl Kind {
    fn backend_and_form(self) -> (&'static str, &'static str) {
        match self {
            Self::One => ("redis", "redis://[user][:password]@host[:port][/database]"),
            Self::Socket => ("redis", "redis+unix:///path/to/socket[?db=0]"),
            Self::Sentinel => (
                "redis-sentinel",
                "redis+sentinel://[user][:password]@host[:port],host[:port],…/MASTER[/database]",
            ),
            Self::Cluster => {
                ("redis-cluster", "redis+cluster://[user][:password]@host[:port],host[:port],…")
            }
        }
    }
}

pub(crate) fn read(url: &str, shown: &str) -> Result<Contents, Error> {
    let (scheme, rest) = url.trim().split_once(':').unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase().replacen("valkey", "redis", 1);
    let (kind, secured) = match scheme.as_str() {
        "redis+unix" | "unix" => (Some(Kind::Socket), false),
        "redis" => (Some(Kind::One), false),
        "rediss" => (Some(Kind::One), true),
        "redis+sentinel" => (Some(Kind::Sentinel), false),
        "rediss+sentinel" => (Some(Kind::Sentinel), true),
        "redis+cluster" => (Some(Kind::Cluster), false),
        "rediss+cluster" => (Some(Kind::Cluster), true),
        _ => (None, false),
    };
    let read = match kind {
        None => Err("there is no Redis URL".to_owned()),
        Some(Kind::Socket) => socket(url.trim()),
        Some(kind) => Parts::of(rest).and_then(|parts| servers(kind, secured, &parts)),
    };
    let contents = read.and_then(|(topology, mut parameters)| {
        let key_prefix = parameters.take("prefix").unwrap_or_default();
        Ok((topology, key_prefix, replicas(&mut parameters)?))
    });
    contents.map_err(|what| {
        let (backend, form) = kind.unwrap_or(Kind::One).backend_and_form();
        let what = redact::hidden_password(url).unwrap_or(&what);
        Error::invalid_url(shown, what, form).with_backend(backend)
    })
}

type Read = Result<(Topology, Parameters), String>;

fn socket(url: &str) -> Read {
    let parsed = redis::parse_redis_url(url).ok_or("there is no Redis URL")?;
    let known = [&COMMON[..], &["db", "user", "pass"]].concat();
    let parameters = Parameters::parse(parsed.query().unwrap_or_default(), &known)?;
    Ok((Topology::One(server(parsed)?), parameters))
}

fn servers(kind: Kind, secured: bool, parts: &Parts<'_>) -> Read {
    let of_kind = if kind == Kind::Sentinel { &SENTINEL[..] } else { &[] };
    let mut parameters = Parameters::parse(parts.query, &[&COMMON[..], &TLS, of_kind].concat())?;
    let files = Files::take(
        |name| parameters.take(name),
        secured,
        "the URL begins with neither rediss nor valkeys",
    )?;
    let sentinel_login = SENTINEL.map(|name| parameters.take(name));
    let path: Vec<&str> = parts.path.split('/').filter(|part| !part.is_empty()).collect();
    let (master, database) = match (kind, path.as_slice()) {
        (Kind::Sentinel, [master]) => (*master, ""),
        (Kind::Sentinel, [master, database]) => (*master, *database),
        (Kind::Sentinel, []) => return Err("the master's name is missing".to_owned()),
        (Kind::Cluster, [_, ..]) => {
            return Err("there is a database, and a Cluster has none".to_owned());
        }
        (_, []) => ("", ""),
        (_, [database]) => ("", *database),
        _ => return Err("there is too much after the host".to_owned()),
    };
    let is_in_a_name = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if !master.chars().all(is_in_a_name) {
        return Err(format!(
            "the master's name {master:?} has characters other than letters, digits, '.', '-' and \
             '_'"
        ));
    }
    if !database.is_empty() && database.parse::<u32>().is_err() {
        return Err("the database is not a number".to_owned());
    }
    if kind == Kind::One && parts.hosts.contains(',') {
        return Err(
            "there are several hosts, but redis: accepts only one; use redis+sentinel: or \
                    redis+cluster:"
                .to_owned(),
        );
    }
    let default_port = if kind == Kind::Sentinel { SENTINEL_PORT } else { SERVER_PORT };
    let hosts = url::hosts(parts.hosts, Some(default_port), !parts.login.is_empty())?;
    let url = |(host, port)| format!("redis://{}{host}:{port}/{database}", parts.login);
    let found = hosts.into_iter().map(|host| server(url(host)));
    let mut found = found.collect::<Result<Vec<_>, _>>()?;
    if secured {
        found = tls::secured(found, &files)?;
    }
    let topology = match kind {
        Kind::Sentinel => Topology::Sentinel {
            server: found[0].clone(),
            sentinels: found.into_iter().map(|it| logged_in(it, &sentinel_login)).collect(),
            master: master.to_owned(),
        },
        Kind::Cluster => Topology::Cluster { seeds: found },
        Kind::One | Kind::Socket => Topology::One(found.swap_remove(0)),
    };
    Ok((topology, parameters))
}

/// The parts of a URL, still percent-encoded.
struct Parts<'u> {
    login: &'u str,
    hosts: &'u str,
    path: &'u str,
    query: &'u str,
}

impl<'u> Parts<'u> {
    fn of(rest: &'u str) -> Result<Self, String> {
        let rest = rest.strip_prefix("//").ok_or("the // after the scheme is missing")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, after) = rest.split_at(end);
        let (after, fragment) = after.split_once('#').unwrap_or((after, ""));
        let (path, query) = after.split_once('?').unwrap_or((after, ""));
        // An @ after the host is in a password with an unescaped /, ? or #, or in a known
        // parameter's value.
        let is_astray = |parameter: &str| match parameter.split_once('=') {
            Some((name, _)) => name.contains('@') || !parameters().contains(&name),
            None => true,
        };
        if path.contains('@')
            || fragment.contains('@')
            || query.split('&').any(|parameter| parameter.contains('@') && is_astray(parameter))
        {
            return Err(
                "a special character in the password isn't percent-encoded (/ is %2F, # is \
                        %23, ? is %3F)"
                    .to_owned(),
            );
        }
        if fragment == "insecure" {
            return Err("#insecure isn't supported, because the server's certificate is always \
                        checked; set ca=PATH to the CA's certificate"
                .to_owned());
        }
        if rest.contains('#') {
            return Err("there is a #, which is %23 in a URL".to_owned());
        }
        let at = authority.rfind('@').map_or(0, |at| at + 1);
        let (login, hosts) = authority.split_at(at);
        Ok(Self { login, hosts, path, query })
    }
}

fn replicas(parameters: &mut Parameters) -> Result<Option<Replicas>, String> {
    let (count, limit) = match (parameters.take("replicas"), parameters.take("replica_timeout")) {
        (Some(count), limit) => (count, limit),
        (None, None) => return Ok(None),
        (None, Some(_)) => return Err("there is replica_timeout without replicas".to_owned()),
    };
    let count = count
        .parse()
        .map_err(|_| format!("replicas={count} is not a number of replicas to wait for"))?;
    let limit = match limit {
        None => Replicas::DEFAULT_LIMIT,
        Some(limit) => duration::parse(&limit)
            .map_err(|_| format!("replica_timeout={limit} is not a time, like 100ms"))?,
    };
    Ok(Some(Replicas { count, limit }))
}

fn server(url: impl IntoConnectionInfo) -> Result<ConnectionInfo, String> {
    let server = url.into_connection_info().map_err(|cause| wrong_part(&cause.to_string()))?;
    Ok(with_settings(server))
}

/// Wake-ups need RESP3. The TCP user time-out closes connections to dead servers.
pub(crate) fn with_settings(server: ConnectionInfo) -> ConnectionInfo {
    let tcp = server.tcp_settings().clone().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(Duration::from_secs(10));
    let redis = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    server.set_tcp_settings(tcp).set_redis_settings(redis)
}

fn wrong_part(message: &str) -> String {
    const PARTS: [(&str, &str); 5] = [
        ("database", "the database is not a number"),
        ("wildcard", "the host is a wildcard address, which clients can't connect to"),
        ("hostname", "the host is missing"),
        ("UTF-8", "the user name or password is not UTF-8 once its percent-encoding is undone"),
        ("path", "the path of the socket is missing"),
    ];
    let found = PARTS.iter().find(|(word, _)| message.contains(word));
    found.map_or("the host or the login can't be read", |(_, problem)| problem).to_owned()
}

fn logged_in(sentinel: ConnectionInfo, [user, password]: &[Option<String>; 2]) -> ConnectionInfo {
    let mut redis = redis::RedisConnectionInfo::default();
    if let Some(user) = user {
        redis = redis.set_username(user);
    }
    if let Some(password) = password {
        redis = redis.set_password(password);
    }
    sentinel.set_redis_settings(redis)
}

const LOCK: &str = include_str!("../../../../../Cargo.lock");

pub(super) fn libraries() -> &'static str {
    let named = ["redis", "sqlx", "etcd-client", "zookeeper-client", "tokio"]
        .map(|library| format!("{library} {}", version(library).unwrap_or("(unknown)")));
    named.join(", ").leak()
}

fn version(library: &str) -> Option<&'static str> {
    let entry = format!("name = \"{library}\"\nversion = \"");
    let (_, rest) = LOCK.split_once(&entry)?;
    rest.split('"').next()
}

//! The examples that the test command runs, and what they must print.

/// One run of an example of the facade.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    pub(crate) features: &'static str,
    pub(crate) args: &'static [&'static str],
    /// Whether it must end with an exit code of 0, or with another.
    pub(crate) ends_well: bool,
    /// Must stand in its output besides.
    pub(crate) closing: &'static str,
    /// Left out by `--quick`.
    pub(crate) needs_server: bool,
}

/// One set of features for all that need a server, so that each example is built once more.
const SERVERS: &str = "mysql,postgres,redis,redlock";

pub(crate) const ALL: &[Example] = &[
    flash_sale(&[]),
    flash_sale(&["--kill"]),
    flash_sale_on(&["--on", "redis"]),
    flash_sale_on(&["--on", "redis", "--kill"]),
    flash_sale_on(&["--on", "sentinel"]),
    flash_sale_on(&["--on", "cluster"]),
    flash_sale_on(&["--on", "redlock"]),
    flash_sale_on(&["--on", "redlock", "--kill"]),
    flash_sale_on(&["--on", "postgres"]),
    flash_sale_on(&["--on", "postgres", "--kill"]),
    flash_sale_on(&["--on", "postgres/session"]),
    flash_sale_on(&["--on", "postgres/session", "--kill"]),
    flash_sale_on(&["--on", "postgres/row"]),
    flash_sale_on(&["--on", "mariadb"]),
    flash_sale_on(&["--on", "mariadb", "--kill"]),
    flash_sale_on(&["--on", "mariadb/session"]),
    flash_sale_on(&["--on", "mariadb/session", "--kill"]),
    flash_sale_on(&["--on", "mariadb/row"]),
    Example {
        ends_well: false,
        closing: "require = [\"strict_fencing\"]: this backend can't promise it",
        ..flash_sale_on(&["--on", "redis", "--require", "fencing", "--require", "strict_fencing"])
    },
    stock_table(&["--on", "postgres"]),
    stock_table(&["--on", "mariadb"]),
];

const fn flash_sale(args: &'static [&'static str]) -> Example {
    Example {
        name: "flash_sale",
        features: "",
        args,
        ends_well: true,
        closing: "exactly 100 sold",
        needs_server: false,
    }
}

const fn flash_sale_on(args: &'static [&'static str]) -> Example {
    Example { features: SERVERS, needs_server: true, ..flash_sale(args) }
}

const fn stock_table(args: &'static [&'static str]) -> Example {
    Example { name: "stock_table", closing: "exactly 50 sold", ..flash_sale_on(args) }
}

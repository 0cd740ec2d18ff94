//! The conformance suite over TLS, as a user who may do what is documented, and nothing else.
#![forbid(unsafe_code)]

mod suite;

use std::process::ExitCode;

use lockwright_testbed::Redis;

/// As `lib.rs` has them, but for the names of the locks.
const RULES: &str = "~* &lockwright:* -@all +hello +subscribe +publish +eval +evalsha +info \
                     +config|get +time +scan +get +mget +set +del +exists +type +pttl +pexpire \
                     +hget +hset +hmget +hdel +hexists +zadd +zrem +zrange +zrangebyscore \
                     +zrank +zscore +acl|dryrun";

fn main() -> ExitCode {
    let options = Redis::options().tls().user("locks", "p@ss/word", RULES);
    // Nobody gets in as the default user, whose rights are those that the log is loaded with.
    let options = options.set("user", "default off ~* &* +@all");
    suite::main(options, Some("redis-tls"))
}

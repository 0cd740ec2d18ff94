//! The conformance suite on a real Redis server.
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode};

use lockwright_conformance::{Connect, Factory, child, connector, harness};
use lockwright_core::{Clock, Result, async_trait};
use lockwright_redis::Redis;
use lockwright_testbed as testbed;

struct Server(testbed::Redis);

#[async_trait]
impl Factory for Server {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        let url = self.0.url();
        Ok(connector(move || {
            let url = url.clone();
            async move { Redis::connect(&url).await }
        }))
    }

    fn child(&self) -> Option<Command> {
        child::this_program(&self.0.url())
    }
}

fn main() -> ExitCode {
    if let Some(code) = child::main(|url| async move { Redis::connect(&url).await }) {
        return code;
    }
    match testbed::Redis::start() {
        Ok(server) => harness::main(Server(server)),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

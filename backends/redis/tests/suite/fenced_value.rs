use std::time::Duration;

use lockwright_conformance::{Protect, Protected, protect};
use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, LockName, Result, async_trait};
use lockwright_redis::fencing::FencedScript;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisError};

const LIMIT: Duration = Duration::from_secs(20);

struct FencedValue {
    connection: MultiplexedConnection,
    write: FencedScript,
    value: String,
    fence: String,
}

pub(crate) fn fenced_value(urls: Vec<String>) -> Protect {
    protect(move |name| FencedValue::open(urls.clone(), name))
}

fn problem(error: RedisError) -> Error {
    Error::unavailable(error.to_string())
}

impl FencedValue {
    async fn open(urls: Vec<String>, name: LockName) -> Result<Self> {
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(LIMIT))
            .set_response_timeout(Some(LIMIT));
        let write = FencedScript::new("return redis.call('SET', KEYS[1], ARGV[1])");
        let [value, fence] = ["value", "fence"].map(|part| format!("{{value:{name}}}:{part}"));
        for url in urls {
            let client = Client::open(url).map_err(problem)?;
            let connection = client.get_multiplexed_async_connection_with_config(&patient).await;
            let mut connection = connection.map_err(problem)?;
            match connection.exists::<_, bool>(&value).await {
                Ok(_) => return Ok(Self { connection, write, value, fence }),
                Err(error) if error.code() == Some("MOVED") => {}
                Err(error) => return Err(problem(error)),
            }
        }
        Err(Error::unavailable(format!("none of the servers has the slot of {value}")))
    }
}

#[async_trait]
impl Protected for FencedValue {
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()> {
        let mut connection = self.connection.clone();
        let (keys, arguments) = ([&self.value], [value]);
        self.write.invoke(&mut connection, &self.fence, fenced, &keys, &arguments).await
    }

    async fn read(&self) -> Result<Option<u64>> {
        self.connection.clone().get(&self.value).await.map_err(problem)
    }
}

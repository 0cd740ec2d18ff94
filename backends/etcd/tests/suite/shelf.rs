use etcd_client::{Client, Error as ClientError, Txn, TxnOp};
use lockwright_conformance::{Protect, Protected, protect};
use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, LockName, Result, async_trait};
use lockwright_etcd::fencing::transact;

struct Shelf {
    client: Client,
    value: String,
    fence: String,
}

pub(crate) fn shelf(endpoints: Vec<String>) -> Protect {
    protect(move |name| Shelf::open(endpoints.clone(), name))
}

fn problem(error: ClientError) -> Error {
    Error::unavailable(error.to_string())
}

impl Shelf {
    async fn open(endpoints: Vec<String>, name: LockName) -> Result<Self> {
        let client = Client::connect(endpoints, None).await.map_err(problem)?;
        Ok(Self {
            client,
            value: format!("shelf/value/{name}"),
            fence: format!("shelf/fence/{name}"),
        })
    }
}

#[async_trait]
impl Protected for Shelf {
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()> {
        let put = TxnOp::put(self.value.as_str(), value.to_string(), None);
        let write = Txn::new().and_then([put]);
        transact(&self.client, self.fence.as_str(), fenced, write).await.map(drop)
    }

    async fn read(&self) -> Result<Option<u64>> {
        let found =
            self.client.kv_client().get(self.value.as_str(), None).await.map_err(problem)?;
        let text =
            found.kvs().first().map(|found| found.value_str()).transpose().map_err(problem)?;
        Ok(text.and_then(|text| text.parse().ok()))
    }
}

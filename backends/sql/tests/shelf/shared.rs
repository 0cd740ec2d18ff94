//! Protected data in a server's database.

/// A value in the application's own row, on a `$server`; `$put` writes it, and `$get` reads it.
macro_rules! shelf {
    ($server:ty, $options:ty, $pool:ty, $check_fence:path, put: $put:literal, get: $get:literal) => {
        use lockwright_conformance::{Protect, Protected, protect};
        use lockwright_core::fencing::Fenced;
        use lockwright_core::{Error, LockName, Result, async_trait};

        struct Shelf {
            pool: $pool,
            name: String,
        }

        const TABLE: &str =
            "CREATE TABLE shelf (name VARCHAR(512) PRIMARY KEY, value BIGINT NOT NULL)";

        fn said(error: sqlx::Error) -> Error {
            Error::unavailable(error.to_string())
        }

        /// Creates the application's table.
        pub(crate) fn on(server: $server) -> lockwright_testbed::Result<$server> {
            server.sql_as_user(TABLE)?;
            Ok(server)
        }

        /// Returns access to that table, on the server of this URL.
        pub(crate) fn shelf(url: String) -> Protect {
            protect(move |name| Shelf::open(url.clone(), name))
        }

        impl Shelf {
            async fn open(url: String, name: LockName) -> Result<Self> {
                let pool =
                    <$options>::new().max_connections(1).connect(&url).await.map_err(said)?;
                Ok(Self { pool, name: name.to_string() })
            }
        }

        #[async_trait]
        impl Protected for Shelf {
            async fn write(&self, fenced: &Fenced, value: u64) -> Result<()> {
                let mut tx = self.pool.begin().await.map_err(said)?;
                $check_fence(&mut tx, fenced.name.as_str(), fenced.fence).await?;
                let put = sqlx::query($put).bind(&self.name).bind(value as i64);
                put.execute(&mut *tx).await.map_err(said)?;
                tx.commit().await.map_err(said)
            }

            async fn read(&self) -> Result<Option<u64>> {
                let get = sqlx::query_scalar($get).bind(&self.name).fetch_optional(&self.pool);
                let found: Option<i64> = get.await.map_err(said)?;
                Ok(found.map(i64::unsigned_abs))
            }
        }
    };
}

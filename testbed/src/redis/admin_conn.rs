use std::path::PathBuf;
use std::time::Duration;

use redis::{
    Connection, ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo,
    RedisResult,
};

use crate::wait::SOON;
use crate::{Error, Result};

#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

#[derive(Debug)]
pub(crate) struct AdminConn {
    pub(crate) socket: PathBuf,
    pub(crate) login: Option<Login>,
}

impl AdminConn {
    pub(crate) fn connection(&self) -> Result<Connection> {
        self.open(Duration::from_secs(5)).map_err(|error| self.explain(&error))
    }

    pub(crate) fn command<T: FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        query(&mut self.connection()?, command)
            .map_err(|error| Error::new(format!("{}: {error}", command.join(" "))))
    }

    pub(crate) fn ask<T: FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        self.try_ask(command).map_err(|error| self.explain(&error))
    }

    pub(crate) fn answers(&self) -> bool {
        match self.try_ask::<String>(&["PING"]) {
            Ok(answer) => answer == "PONG",
            // A server that answers `NOAUTH` has started.
            Err(error) => error.code() == Some("NOAUTH"),
        }
    }

    fn try_ask<T: FromRedisValue>(&self, command: &[&str]) -> RedisResult<T> {
        let mut connection = self.open(SOON)?;
        connection.set_read_timeout(Some(SOON))?;
        query(&mut connection, command)
    }

    fn open(&self, limit: Duration) -> RedisResult<Connection> {
        let mut settings = RedisConnectionInfo::default();
        if let Some(login) = &self.login {
            settings = settings.set_password(&login.password);
            if let Some(user) = &login.user {
                settings = settings.set_username(user);
            }
        }
        let address = ConnectionAddr::Unix(self.socket.clone()).into_connection_info()?;
        redis::Client::open(address.set_redis_settings(settings))?
            .get_connection_with_timeout(limit)
    }

    fn explain(&self, error: &redis::RedisError) -> Error {
        Error::new(format!("redis at {}: {error}", self.socket.display()))
    }
}

fn query<T: FromRedisValue>(connection: &mut Connection, command: &[&str]) -> RedisResult<T> {
    let (name, arguments) = command.split_first().expect("a command has a name");
    redis::cmd(name).arg(arguments).query(connection)
}

macro_rules! process_methods {
    ($Server:ident) => {
        impl std::ops::Deref for $Server {
            type Target = crate::Process;

            fn deref(&self) -> &crate::Process {
                &self.process
            }
        }

        impl std::ops::DerefMut for $Server {
            fn deref_mut(&mut self) -> &mut crate::Process {
                &mut self.process
            }
        }
    };
}

macro_rules! port_methods {
    ($Server:ident) => {
        impl $Server {
            pub fn port(&self) -> u16 {
                self.port
            }

            pub fn address(&self) -> std::net::SocketAddr {
                crate::port::local(self.port)
            }
        }
    };
}

macro_rules! options {
    ($Server:ident, $Options:ident, $what:literal) => {
        impl $Server {
            pub fn start() -> crate::Result<Self> {
                Self::options().start()
            }

            pub fn options() -> $Options {
                $Options::default()
            }
        }

        impl $Options {
            #[doc = concat!("Adds ", $what, ". The last one counts.")]
            pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
                self.settings.push((name.into(), value.into()));
                self
            }
        }
    };
}

macro_rules! setters {
    ($Options:ident {$(
        $(#[$doc:meta])*
        $vis:vis fn $name:ident($($arg:ident: $type:ty)?) sets $field:ident to $value:expr;
    )+}) => {
        impl $Options {
            $(
                $(#[$doc])*
                $vis fn $name(mut self $(, $arg: $type)?) -> Self {
                    self.$field = $value;
                    self
                }
            )+
        }
    };
}

macro_rules! tls {
    ($Server:ident, $Options:ident, $($path:tt)+) => {
        impl $Options {
            /// Accepts only TLS, with a certificate signed by the server's `authority`. ZooKeeper
            /// also keeps its plain port.
            pub fn tls(mut self) -> Self {
                self.tls.is_on = true;
                self
            }

            pub fn tls_with_client_certificates(mut self) -> Self {
                self.tls.wants_client_certificates = true;
                self.tls()
            }
        }

        impl $Server {
            pub fn authority(&self) -> std::path::PathBuf {
                self.$($path)+.tls.files().authority()
            }

            pub fn client_certificate(&self) -> (std::path::PathBuf, std::path::PathBuf) {
                let files = self.$($path)+.tls.files();
                (files.certificate(), files.key())
            }
        }
    };
}

macro_rules! ensemble_methods {
    ($Set:ident) => {
        impl Options {
            pub fn start(mut self) -> crate::Result<$Set> {
                self.tls.make_certificates()?;
                crate::port::retried(|| $Set::start_with(&self))
            }
        }

        impl $Set {
            pub fn url(&self) -> String {
                self.url_through(self.members.iter().map(Member::port))
            }

            pub fn wait_for_another_leader(&self, old: usize) -> crate::Result<usize> {
                wait_until("the election", || self.leader().ok().filter(|leader| *leader != old))
            }

            /// Silences a member's connections to others. The member answers clients until
            /// it detects the isolation.
            pub fn isolate(&self, member: usize) {
                self.network.isolate(member);
            }

            pub fn heal(&self, member: usize) {
                self.network.heal(member);
            }

            fn start_again(
                &mut self,
                launch: impl Fn(&mut Member) -> crate::Result<()> + Sync,
            ) -> crate::Result<()> {
                crate::ensemble::all_at_once(&mut self.members, |member| {
                    member.process.kill();
                    launch(member)
                })?;
                self.wait_until_whole()
            }
        }
    };
}

macro_rules! sql_methods {
    ($Server:ident, $Options:ident) => {
        crate::methods::setters! { $Options {
            pub fn password(password: &str) sets password to Some(password.to_owned());
            pub fn tls() sets tls to true;
        } }

        impl $Options {
            pub fn start(self) -> crate::Result<$Server> {
                crate::port::retried(|| $Server::start_on(crate::port::free(), &self))
            }
        }

        impl $Server {
            fn start_on(port: u16, options: &$Options) -> crate::Result<Self> {
                let folder = crate::folder::temporary("sql", account())?;
                fill(options, folder.path())?;
                let process = launch(port, options, folder.path())?;
                let this = Self { process, port, options: options.clone(), folder };
                this.prepare(true)?;
                Ok(this)
            }

            /// Without `keep_data`, the database is new.
            pub fn restart(&mut self, keep_data: bool) -> crate::Result<()> {
                self.stop();
                if !keep_data {
                    crate::folder::empty_except(self.folder.path(), &[])?;
                    fill(&self.options, self.folder.path())?;
                }
                self.process = launch(self.port, &self.options, self.folder.path())?;
                self.prepare(!keep_data)
            }

            pub fn folder(&self) -> &std::path::Path {
                self.folder.path()
            }

            /// Returns the CA's certificate file. [`Self::restart`] without data replaces it.
            pub fn authority(&self) -> std::path::PathBuf {
                self.folder().join(crate::certificates::AUTHORITY)
            }

            pub fn url(&self) -> String {
                self.url_through(self.port)
            }

            pub fn url_through(&self, port: u16) -> String {
                url(USER, self.password(), port)
            }

            pub fn admin_url(&self) -> String {
                url(ADMIN, ADMIN_PASSWORD, self.port)
            }

            pub fn password(&self) -> &str {
                self.options.password.as_deref().unwrap_or(PASSWORD)
            }

            /// Returns rows as lines, with `|` (PostgreSQL) or a tab (MariaDB) between fields.
            pub fn sql(&self, statements: &str) -> crate::Result<String> {
                self.sql_as(ADMIN, ADMIN_PASSWORD, statements)
            }

            pub fn sql_as_user(&self, statements: &str) -> crate::Result<String> {
                self.sql_as(USER, self.password(), statements)
            }
        }
    };
}

pub(crate) use {
    ensemble_methods, options, port_methods, process_methods, setters, sql_methods, tls,
};

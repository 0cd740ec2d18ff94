#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.trim_start_matches('v').split(['.', '-', '+']).map(str::parse);
        let mut next = || parts.next()?.ok();
        Some(Self { major: next()?, minor: next()?, patch: next()? })
    }

    /// Returns whether the version has the bug of etcd issue 15247: a leader that was replaced
    /// while paused may revoke live leases.
    pub(crate) fn revokes_live_leases(self) -> bool {
        let at = |minor, patch| Self { major: 3, minor, patch };
        self < at(4, 31) || (at(5, 0)..at(5, 13)).contains(&self)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_the_lease_bug_are_detected() {
        for (text, has_it) in [
            ("3.3.27", true),
            ("3.4.23", true),
            ("3.4.30", true),
            ("3.4.31", false),
            ("3.5.0-rc.1", true),
            ("3.5.12", true),
            ("3.5.13", false),
            ("v3.6.0", false),
            ("4.0.0-pre", false),
        ] {
            let version = Version::read(text).unwrap();
            assert_eq!(version.revokes_live_leases(), has_it, "{text}");
        }
        assert_eq!(Version::read("3.5"), None);
    }
}

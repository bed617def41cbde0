//! The user of the servers. Postgres refuses to run as root, and test servers need no root rights, so root runs them as
//! the user `nobody`; another user runs them as itself.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::failure::cannot;

/// The user and group id of the servers; `None` keeps those of the test process.
#[derive(Debug)]
pub(super) struct User(Option<(u32, u32)>);

impl User {
    pub(super) fn for_servers() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self(None));
        }
        let passwd =
            fs::read_to_string("/etc/passwd").with_context(cannot("read", "/etc/passwd"))?;
        // `name:password:uid:gid:…`
        let ids = passwd.lines().find_map(|line| {
            let mut ids = line.strip_prefix("nobody:")?.split(':').skip(1);
            Some((ids.next()?.parse().ok()?, ids.next()?.parse().ok()?))
        });
        let ids = ids.context(
            "root runs the servers as the user `nobody`, which /etc/passwd does not contain",
        )?;
        Ok(Self(Some(ids)))
    }

    /// Makes the servers the owner of a file or directory.
    pub(super) fn make_owner(&self, path: &Path) -> Result<()> {
        let Some((uid, gid)) = self.0 else { return Ok(()) };
        chown(path, Some(uid), Some(gid)).with_context(cannot("change the owner of", path))
    }

    /// Makes a command run as this user.
    pub(super) fn apply_to(&self, command: &mut Command) {
        if let Some((uid, gid)) = self.0 {
            command.uid(uid).gid(gid);
        }
    }
}

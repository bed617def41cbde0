//! Whom the servers run as. Postgres refuses root, and a test server has no use for root's rights,
//! so root runs them as `nobody`; everybody else runs them as themselves.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::failure::cannot;

const UNPRIVILEGED: &str = "nobody";

/// The user that servers run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    /// Whoever runs the tests.
    Caller,
    /// Root's stand-in.
    Other { uid: u32, gid: u32 },
}

impl User {
    pub(super) fn for_servers() -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Caller);
        }
        let passwd =
            fs::read_to_string("/etc/passwd").with_context(cannot("read", "/etc/passwd"))?;
        find(&passwd, UNPRIVILEGED).context(
            "servers do not run as root, and /etc/passwd has no user `nobody` to run them as",
        )
    }

    /// Lets the servers own a file or directory.
    pub(super) fn give(&self, path: &Path) -> Result<()> {
        match *self {
            Self::Caller => Ok(()),
            Self::Other { uid, gid } => {
                chown(path, Some(uid), Some(gid)).with_context(cannot("hand over", path))
            }
        }
    }

    /// Lets a command run as this user.
    pub(super) fn run(&self, command: &mut Command) {
        if let Self::Other { uid, gid } = *self {
            command.uid(uid).gid(gid);
        }
    }
}

/// Finds `name:password:uid:gid:…`.
fn find(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(User::Other { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh
\
                      nobody2:x:7:8::/:/bin/false
\
                      nobody:x:65534:65533::/:/bin/false
";
        assert_eq!(find(passwd, "nobody"), Some(User::Other { uid: 65534, gid: 65533 }));
        assert_eq!(find(passwd, "absent"), None);
    }
}

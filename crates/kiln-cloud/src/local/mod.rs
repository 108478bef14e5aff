//! The local cloud: booted systems on this host, behind an API like any other cloud's.
//!
//! [`Driver`] is the client; [`serve`] the daemon it starts on demand; [`run_instance`] the process beside
//! each instance. Needs Linux, root and systemd-nspawn; not systemd as PID 1, Docker or KVM.

mod cgroup;
mod client;
mod daemon;
mod driver;
mod exec;
mod flavor;
mod launch;
mod names;
mod needs;
mod once;
mod plan;
mod port;
mod predecessor;
mod supervisor;
mod sys;
mod wire;

use std::path::PathBuf;

pub use daemon::{name_on_host, serve};
pub use driver::{Access, Driver};
pub use supervisor::run_instance;

/// A label of networks: their instances have no config drive, and at the metadata address they reach this port of the gateway,
/// where somebody else answers. For tests of other clouds' metadata.
pub const METADATA_PORT: &str = "kiln_metadata_port";

/// In the root: where the daemon listens to root of this host.
const SOCKET: &str = "api.sock";

/// `KILN_LOCAL_ROOT`, or `/var/lib/kiln`.
pub fn default_root() -> PathBuf {
    std::env::var_os("KILN_LOCAL_ROOT")
        .filter(|v| !v.is_empty())
        .map_or_else(|| "/var/lib/kiln".into(), PathBuf::from)
}

/// The program to start daemon and supervisors with: `KILN_EXE`, or this very one. Through `/proc`, because
/// the file may have been replaced by a newer one since this process was started.
fn executable() -> PathBuf {
    std::env::var_os("KILN_EXE")
        .filter(|v| !v.is_empty())
        .map_or_else(|| "/proc/self/exe".into(), PathBuf::from)
}

/// The unit that makes an instance into a node, enabled in source images.
pub fn identity_unit() -> &'static str {
    "[Unit]\n\
     Description=Kiln: take on this node's identity\n\
     After=network-pre.target local-fs.target\n\
     Before=ssh.service\n\
     \n\
     [Service]\n\
     Type=oneshot\n\
     ExecStart=/usr/local/bin/kiln node identity\n\
     RemainAfterExit=yes\n\
     StandardOutput=journal+console\n\
     \n\
     [Install]\n\
     WantedBy=multi-user.target\n"
}

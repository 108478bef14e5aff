//! What the daemon tells an instance's supervisor: everything a boot needs, as plain data in `boot.json`.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Rule;

pub const FILE: &str = "boot.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootPlan {
    pub id: String,
    pub hostname: String,
    /// The instance's cgroup directory; each boot gets a new one below it.
    pub cgroup: PathBuf,
    /// Bottom first.
    pub layers: Vec<PathBuf>,
    pub upper: PathBuf,
    /// A fault on demand: the instance is on, but its system does not come up.
    #[serde(default)]
    pub hangs: bool,
    pub binds: Vec<Bind>,
    pub port: Port,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    pub from: PathBuf,
    pub to: String,
    pub read_only: bool,
}

/// The instance's place on its network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    pub netns: String,
    /// The host's end of the cable.
    pub link: String,
    /// Written on the link, whose name is too short for it: whose it is.
    #[serde(default)]
    pub owner: String,
    pub bridge: String,
    /// The hardware address inside, the same at every boot.
    pub mac: String,
    pub address: Ipv4Addr,
    pub prefix: u8,
    pub gateway: Ipv4Addr,
    pub rules: Vec<Rule>,
}

impl Port {
    /// Of the namespace and the link. `owner` is the root's name on the host.
    pub fn names(owner: &str, id: &str) -> (String, String) {
        let short: String = id.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        (format!("{owner}-{id}"), format!("kv{short}"))
    }
}

impl BootPlan {
    /// The options of the overlay mount. Syncing is left out (`volatile`): package installation is several
    /// times faster, and a root disk here need not survive a crash of the host. Volumes are not overlays
    /// and keep their promises. Directory renames are copies, so that an upper layer can become part of an
    /// image as it is.
    pub fn overlay_options(&self, work: &Path) -> String {
        let lower: Vec<_> = self.layers.iter().rev().map(|l| l.display().to_string()).collect();
        format!(
            "lowerdir={},upperdir={},workdir={},volatile,redirect_dir=off,metacopy=off,index=off,xino=off",
            lower.join(":"),
            self.upper.display(),
            work.display()
        )
    }

    pub fn nspawn_arguments(&self, root: &Path, resolv_conf: &str) -> Vec<String> {
        let mut args: Vec<String> = [
            "--quiet",
            // The host's PID 1 may not be systemd.
            "--register=no",
            "--keep-unit",
            // Gives the inside a /dev/console whose output comes out of our stdout.
            "--console=read-only",
            "--link-journal=no",
            "--timezone=off",
            // The console log is read as plain text.
            "--setenv=TERM=dumb",
            "--setenv=SYSTEMD_COLORS=0",
            "--capability=CAP_NET_ADMIN",
            // Images may be newer than the host's nspawn and use calls it does not know.
            "--system-call-filter=@mount open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr @keyring",
        ]
        .map(String::from)
        .to_vec();
        args.push(format!("--directory={}", root.display()));
        args.push(format!("--machine={}", self.hostname));
        args.push(format!("--hostname={}", self.hostname));
        args.push(format!("--uuid={}", self.id.replace('-', "")));
        args.push(format!("--network-namespace-path=/run/netns/{}", self.port.netns));
        args.push(format!("--resolv-conf={resolv_conf}"));
        for bind in &self.binds {
            let option = if bind.read_only { "--bind-ro" } else { "--bind" };
            args.push(format!("{option}={}:{}", bind.from.display(), bind.to));
        }
        if self.hangs {
            args.extend(["/bin/sleep", "infinity"].map(String::from));
        } else {
            args.push("--boot".into());
        }
        args
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_stacked_top_first() {
        let plan = BootPlan {
            id: "0f".into(),
            hostname: "n1".into(),
            cgroup: "/c".into(),
            layers: vec!["/l/base".into(), "/l/extra".into()],
            upper: "/l/mine".into(),
            hangs: false,
            binds: vec![Bind { from: "/v/1".into(), to: "/mnt/volumes/state".into(), read_only: true }],
            port: Port {
                netns: "kiln-0f".into(),
                link: "kv0f".into(),
                owner: "kiln-x".into(),
                bridge: "kb0".into(),
                mac: "02:00:00:00:00:01".into(),
                address: Ipv4Addr::new(10, 0, 0, 2),
                prefix: 24,
                gateway: Ipv4Addr::new(10, 0, 0, 1),
                rules: vec![],
            },
        };
        let options = plan.overlay_options(Path::new("/w"));
        assert!(options.starts_with("lowerdir=/l/extra:/l/base,upperdir=/l/mine,workdir=/w,"));
        let args = plan.nspawn_arguments(Path::new("/r"), "replace-host");
        assert!(args.contains(&"--bind-ro=/v/1:/mnt/volumes/state".to_string()));
        assert_eq!(args.last().map(String::as_str), Some("--boot"));
        let args = BootPlan { hangs: true, ..plan }.nspawn_arguments(Path::new("/r"), "replace-host");
        assert!(!args.contains(&"--boot".to_string()));
    }

    #[test]
    fn link_names_fit_the_kernel() {
        let (netns, link) = Port::names("kiln-x", "123e4567-e89b-42d3-a456-426614174000");
        assert_eq!(netns, "kiln-x-123e4567-e89b-42d3-a456-426614174000");
        assert_eq!(link, "kv123e4567e89b");
        assert!(link.len() <= 15);
    }
}

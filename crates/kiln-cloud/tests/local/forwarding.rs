//! What becomes of the host's forwarding of packets. The setting belongs to a network namespace, so the daemon runs in one of
//! its own here, and the host's is not touched.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kiln_cloud::{Cloud, NewNetwork};
use tokio::time::{sleep, timeout};

use super::support::{LONG, labels, program};

/// Of what the namespace shares with the host, nothing is changed: the limits of inotify look as if they were high enough, the
/// note of earlier values is another, and no file of this host asks for forwarding. `/sys` shows the links of the
/// namespace.
const ALONE: &str = r#"
set -eu
mkdir -p /run/kiln
mount -t tmpfs none /run/kiln
mkdir /run/kiln/sys
mount -t sysfs none /run/kiln/sys
for links in class/net devices/virtual/net; do
    mount --bind "/run/kiln/sys/$links" "/sys/$links"
done
for limit in /proc/sys/fs/inotify/max_user_instances /proc/sys/fs/inotify/max_user_watches; do
    echo 1000000 >"/run/kiln/${limit##*/}"
    mount --bind "/run/kiln/${limit##*/}" "$limit"
done
for folder in /etc/sysctl.d /run/sysctl.d /usr/local/lib/sysctl.d /usr/lib/sysctl.d; do
    [ ! -d "$folder" ] || mount -t tmpfs none "$folder"
done
[ ! -e /etc/sysctl.conf ] || mount --bind /dev/null /etc/sysctl.conf
ip link set lo up
echo 0 >/proc/sys/net/ipv4/ip_forward
exec "$@"
"#;

/// A daemon in namespaces of its own, which end with it.
struct Apart {
    daemon: Child,
    root: tempfile::TempDir,
}

impl Apart {
    async fn start() -> Apart {
        let root = tempfile::tempdir().unwrap();
        let log = fs::File::create(root.path().join("daemon.log")).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", ALONE, "sh"]).arg(program());
        command.args(["local", "daemon", "--root"]).arg(root.path()).stdin(Stdio::null());
        let daemon = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut apart = Apart { daemon, root };
        let answers = async {
            while UnixStream::connect(apart.root.path().join("api.sock")).is_err() {
                let ended = apart.daemon.try_wait().unwrap();
                assert!(
                    ended.is_none(),
                    "{}",
                    fs::read_to_string(apart.root.path().join("daemon.log")).unwrap()
                );
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(LONG, answers).await.unwrap();
        apart
    }

    /// A command in its network.
    fn run(&self, command: &[&str]) -> String {
        let id = self.daemon.id().to_string();
        let output = Command::new("nsenter").args(["-t", &id, "-n"]).args(command).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    fn forwards(&self) -> String {
        self.run(&["cat", "/proc/sys/net/ipv4/ip_forward"])
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        // Made for the namespace's own to be mounted on, unless the host had it.
        let _ = fs::remove_dir("/run/kiln");
    }
}

#[tokio::test]
async fn forwarding_ends_with_the_last_network_unless_others_use_it() {
    assert!(rustix::process::geteuid().is_root(), "the local cloud needs root");
    let of_host = || fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap();
    let before = of_host();
    let apart = Apart::start().await;
    let cloud = Cloud::local_with(apart.root.path().to_path_buf(), program());
    let make = async || {
        let new = NewNetwork {
            name: "t-forward".into(),
            cidr: None,
            labels: labels("t-forward"),
            automatic: vec![],
        };
        cloud.create_network(new).await.unwrap().id
    };
    assert_eq!(apart.forwards(), "0");

    let network = make().await;
    assert_eq!(apart.forwards(), "1");
    cloud.delete_network(&network).await.unwrap();
    assert_eq!(apart.forwards(), "0", "nobody else wants it");

    let network = make().await;
    apart.run(&["ip", "link", "add", "br9", "type", "bridge"]);
    cloud.delete_network(&network).await.unwrap();
    assert_eq!(apart.forwards(), "1", "machines behind another bridge need it");
    apart.run(&["ip", "link", "delete", "br9"]);

    // From now on it was on before.
    let network = make().await;
    cloud.delete_network(&network).await.unwrap();
    assert_eq!(apart.forwards(), "1", "what was on before stays on");
    assert!(cloud.retire().await.unwrap());
    assert_eq!(of_host(), before, "the host's own was touched");
}

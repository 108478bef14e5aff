//! Slurm's own spec file, built into RPMs. It takes minutes, so they are kept for the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::Digest as _;

use crate::cluster_dir::printed;
use crate::lab::cloud_root;

/// The one that Debian's bookworm has, so that nodes of both systems are of one cluster.
pub const VERSION: &str = "22.05.8-1.el9";

/// The tarball of Slurm's sources that Debian builds its packages from.
const TARBALL: &str = "8c8f6a26a5d51e6c63773f2e02653eb724540ee8b360125c8d7732314ce737d6";

const SCRIPT: &str = include_str!("build.sh");

/// What is needed to build them. MariaDB's library is not optional: the spec file names a plugin that is linked with it.
const PACKAGES: [&str; 19] = [
    "bzip2",
    "ca-certificates",
    "file",
    "gcc",
    "libc6-dev",
    "libdbus-1-dev",
    "libhwloc-dev",
    "libmariadb-dev",
    "libmariadb-dev-compat",
    "libmunge-dev",
    "libnuma-dev",
    "libpam0g-dev",
    "libperl-dev",
    "libpmix-dev",
    "libreadline-dev",
    "make",
    "perl",
    "python3",
    "rpm",
];

/// The files of the packages, unsigned.
pub fn files() -> Vec<PathBuf> {
    let digest = sha2::Sha256::digest([TARBALL, SCRIPT, &PACKAGES.join(",")].concat());
    let kept = cloud_root().join("slurm-rpms");
    let dir = kept.join(&hex::encode(digest)[..16]);
    if !dir.exists() {
        // What was made otherwise is of no use any more.
        let _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(&kept).expect("a directory");
        make(&dir);
    }
    fs::read_dir(&dir).expect("packages").flatten().map(|entry| entry.path()).collect()
}

fn make(dir: &Path) {
    let scratch = tempfile::tempdir_in(dir.parent().expect("a parent")).expect("a directory");
    let script = scratch.path().join("build.sh");
    fs::write(&script, SCRIPT).expect("a file");
    let hook = |text: String| format!("--customize-hook={text}");
    let output = Command::new("mmdebstrap")
        .args(["--quiet", "--variant=minbase", "--format=null", "--dpkgopt=force-unsafe-io"])
        .args(["--aptopt=Acquire::Languages \"none\"", &format!("--include={}", PACKAGES.join(","))])
        .arg(hook(format!("upload {} /root/build.sh", script.display())))
        .arg(hook(format!("chroot \"$1\" sh /root/build.sh {TARBALL}")))
        .arg(hook(format!("copy-out /root/rpms {}", scratch.path().display())))
        .args(["bookworm", "/dev/null"])
        .output()
        .expect("mmdebstrap runs");
    assert!(output.status.success(), "{}", printed(&output));
    fs::rename(scratch.path().join("rpms"), dir).expect("packages");
}

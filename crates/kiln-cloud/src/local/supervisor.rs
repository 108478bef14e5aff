//! The process beside each instance: boots it, boots it again when the inside asks for a reboot, and
//! cleans up when it is off. It outlives the daemon and needs nothing from it.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::plan::{self, BootPlan};
use super::sys::Mount;
use super::{cgroup, port, sys};
use crate::{Error, Result};

/// What nspawn exits with when the inside has asked for a reboot.
const REBOOT: i32 = 133;
/// The console log is cut to the second when it is longer than the first.
const CONSOLE_MAX: u64 = 8 << 20;
const CONSOLE_KEEP: u64 = 1 << 20;

/// Runs the instance whose directory is given until it is off, and returns nspawn's exit status.
/// Call it on the main thread.
pub fn run_instance(dir: &Path) -> Result<i32> {
    let text = fs::read(dir.join(plan::FILE))
        .map_err(|e| Error::failed(format!("cannot use {}", dir.display())).because(e))?;
    let plan: BootPlan = serde_json::from_slice(&text)
        .map_err(|e| Error::failed(format!("cannot use {}", plan::FILE)).because(e))?;
    let result = run_boots(dir, &plan);
    port::unplug(&plan.port);
    result
}

fn run_boots(dir: &Path, plan: &BootPlan) -> Result<i32> {
    let mut boot = 0;
    loop {
        let group = plan.cgroup.join(format!("boot-{boot}"));
        let status = run_boot(dir, plan, &group)?;
        cgroup::destroy(&group)?;
        if status != REBOOT {
            return Ok(status);
        }
        boot += 1;
    }
}

fn run_boot(dir: &Path, plan: &BootPlan, group: &Path) -> Result<i32> {
    let failed = |what: &str, e: std::io::Error| Error::failed(what).because(e);

    port::plug(&plan.port)?;
    cgroup::create(group)?;
    let root = dir.join("root");
    let work = dir.join("work");
    // A volatile overlay marks its work directory as used up.
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(|e| failed("work directory", e))?;
    fs::create_dir_all(&root).map_err(|e| failed("root directory", e))?;
    // Covered by a private file system below, so that nspawn leaves nothing of itself on the host.
    fs::create_dir_all("/run/systemd/nspawn").map_err(|e| failed("/run/systemd/nspawn", e))?;

    let console = dir.join("console.log");
    trim(&console).map_err(|e| failed("console.log", e))?;
    let console = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(console)
        .map_err(|e| failed("console.log", e))?;
    let errors = console.try_clone().map_err(|e| failed("console.log", e))?;

    let mut command = Command::new("systemd-nspawn");
    command
        .args(plan.nspawn_arguments(&root, resolv_conf()))
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1")
        .stdin(Stdio::null())
        .stdout(console)
        .stderr(errors);
    let mounts = vec![
        Mount { kind: c"tmpfs", target: c"/run/systemd/nspawn".into(), options: c"mode=0700".into() },
        Mount {
            kind: c"overlay",
            target: c_string(&root)?,
            options: c_string(&plan.overlay_options(&work))?,
        },
    ];
    sys::in_cgroup(&mut command, cgroup::procs(group)?);
    sys::with_private_mounts(&mut command, mounts);
    sys::fresh_uptime_for_children().map_err(|e| failed("time namespace", e))?;
    let mut child = command.spawn().map_err(|e| failed("cannot start systemd-nspawn", e))?;
    port::announce(&plan.port);
    let status = child.wait().map_err(|e| failed("systemd-nspawn", e))?;
    // Stragglers inside would keep the root busy.
    cgroup::wait_empty(group, Duration::from_secs(1));
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn c_string(value: &(impl AsRef<std::ffi::OsStr> + ?Sized)) -> Result<CString> {
    use std::os::unix::ffi::OsStrExt as _;
    CString::new(value.as_ref().as_bytes()).map_err(|_| Error::failed("a path contains a zero byte"))
}

/// The host's own resolver if it can be reached from elsewhere, else the one behind its local stub.
fn resolv_conf() -> &'static str {
    let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let stub =
        text.lines().any(|line| line.trim_start().starts_with("nameserver") && line.contains("127.0.0.53"));
    if stub { "replace-uplink" } else { "replace-host" }
}

fn trim(console: &Path) -> std::io::Result<()> {
    let Ok(mut file) = fs::File::open(console) else {
        return Ok(());
    };
    let length = file.metadata()?.len();
    if length <= CONSOLE_MAX {
        return Ok(());
    }
    file.seek(SeekFrom::Start(length - CONSOLE_KEEP))?;
    let mut rest = Vec::new();
    file.read_to_end(&mut rest)?;
    fs::write(console, rest)
}

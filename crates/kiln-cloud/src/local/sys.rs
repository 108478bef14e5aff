//! The system calls that need `unsafe`: everything between `fork` and `exec`.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The command will run in a session of its own, so that no terminal's or parent's end reaches it.
pub fn own_session(command: &mut Command) {
    // SAFETY: setsid is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
}

/// The command will start inside the cgroup whose `cgroup.procs` is given.
pub fn in_cgroup(command: &mut Command, mut procs: File) {
    // SAFETY: a single write to a descriptor opened before the fork.
    unsafe {
        command.pre_exec(move || procs.write_all(b"0"));
    }
}

/// One file system to mount.
pub struct Mount {
    pub kind: &'static CStr,
    pub target: CString,
    pub options: CString,
}

/// The command will see these mounts, in order, and nobody else will. They vanish with its last process.
pub fn with_private_mounts(command: &mut Command, mounts: Vec<Mount>) {
    // SAFETY: only system calls on memory prepared before the fork; no allocation, no locks.
    unsafe {
        command.pre_exec(move || {
            unshare_unsafe(UnshareFlags::NEWNS)?;
            mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
            for m in &mounts {
                mount(c"kiln", m.target.as_c_str(), m.kind, MountFlags::empty(), m.options.as_c_str())?;
            }
            Ok(())
        });
    }
}

/// Children forked from now on by this thread live in a new time namespace whose `CLOCK_BOOTTIME`, the
/// uptime, starts at zero. Must be called on the main thread: the offsets are per process.
pub fn fresh_uptime_for_children() -> io::Result<()> {
    // SAFETY: NEWTIME concerns future children only; no memory or descriptors are involved.
    unsafe { unshare_unsafe(UnshareFlags::NEWTIME)? };
    // To the nanosecond: Slurm compares whole seconds, and half of one too many is a reboot that never was.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanoseconds) = match now.tv_nsec {
        0 => (-now.tv_sec, 0),
        part => (-now.tv_sec - 1, 1_000_000_000 - part),
    };
    std::fs::write("/proc/self/timens_offsets", format!("boottime {seconds} {nanoseconds}\n"))
}

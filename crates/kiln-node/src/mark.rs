//! How a compute node says which bundle it has: in the `Extra` field of its own record in Slurm, where kilnd reads it
//! together with everything else. Nothing else of Kiln's is in both a node's reach and kilnd's.

use crate::process;

const PREFIX: &str = "kiln-bundle:";
/// Enough to tell bundles apart, and short enough for `scontrol show node`.
const LENGTH: usize = 12;
/// A unit of its own: slurmctld may be away, and nothing on the node has to wait for it.
const UNIT: &str = "kiln-tell-bundle";

fn mark(digest: &str) -> String {
    format!("{PREFIX}{}", digest.get(..LENGTH).unwrap_or(digest))
}

/// The bundle's name in a node's `Extra`, if Kiln put it there.
pub fn read(extra: &str) -> Option<&str> {
    extra.strip_prefix(PREFIX)
}

pub fn is_of(name: &str, digest: &str) -> bool {
    !name.is_empty() && digest.starts_with(name)
}

/// Has Slurm told, by systemd and until Slurm takes it. Returns at once.
pub(crate) fn tell(node: &str, digest: &str) {
    // One that still tries has an older mark.
    let unit = format!("{UNIT}.service");
    let _ = process::call(&["systemctl", "--quiet", "stop", &unit]);
    let (unit, name, extra) =
        (format!("--unit={UNIT}"), format!("nodename={node}"), format!("extra={}", mark(digest)));
    let argv = [
        "systemd-run",
        "--quiet",
        "--collect",
        "--no-block",
        &unit,
        "--property=Restart=on-failure",
        "--property=RestartSec=5",
        "scontrol",
        "update",
        &name,
        &extra,
    ];
    if let Err(error) = process::call(&argv) {
        crate::boot::say(&format!("cannot tell Slurm of the bundle: {}", crate::explain(&error)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_its_bundle_and_no_other() {
        let digest = "0123456789abcdef0123";
        let mark = mark(digest);
        let name = read(&mark).unwrap();
        assert!(is_of(name, digest));
        assert!(!is_of(name, "1123456789abcdef0123"));
        assert_eq!(read("an administrator's words"), None);
        assert!(!is_of("", digest));
    }
}

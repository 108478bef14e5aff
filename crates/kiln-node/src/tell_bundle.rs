//! Tells Slurm which bundle this node has, by the tag in the `Extra` field of the node's record.

use kiln_wire::bundle_tag;

use crate::process;

/// A unit of its own: slurmctld may be away, and nothing on the node has to wait for it.
const UNIT: &str = "kiln-tell-bundle";

/// systemd repeats the command until Slurm accepts it. Returns at once.
pub(crate) fn tell(node: &str, digest: &str) {
    // A unit that is still trying has an older tag.
    let unit = format!("{UNIT}.service");
    let _ = process::call(&["systemctl", "--quiet", "stop", &unit]);
    let (unit, name, extra) = (
        format!("--unit={UNIT}"),
        format!("nodename={node}"),
        format!("extra={}", bundle_tag::write(digest)),
    );
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

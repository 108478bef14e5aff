//! The programs Slurm calls: this binary under other names, because slurm.conf cannot give them arguments. They
//! assume neither open standard streams nor an environment, and leave all slow work to kilnd.

use std::path::Path;
use std::process::ExitCode;

use kiln_fleet::paths;

/// `None`: the binary was called as itself.
pub fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args();
    let name = arguments.next()?;
    let nodes = arguments.next().unwrap_or_default();
    match Path::new(&name).file_name()?.to_str()? {
        // A node to power up is, to Slurm of some releases, also a node to reboot.
        "kiln-reboot" | "kiln-resume" => Some(reboot(&nodes)),
        // Nothing is ever powered down: no group is elastic.
        "kiln-suspend" => Some(ExitCode::SUCCESS),
        _ => None,
    }
}

fn reboot(nodes: &str) -> ExitCode {
    let (store, spool, fleet) = (Path::new(paths::STORE), Path::new(paths::SPOOL), Path::new(paths::FLEET));
    // Slurm only logs the exit code; what went wrong is in kilnd's events.
    match kiln_fleet::hook::reboot(store, spool, fleet, nodes) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

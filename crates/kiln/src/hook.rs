//! The programs Slurm calls: this binary under other names, because slurm.conf cannot give them arguments. They
//! assume neither open standard streams nor an environment, and leave all slow work to kilnd.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kiln_fleet::hooks::{self, HookPaths};
use kiln_wire::paths;

/// `None`: the binary was called as itself.
pub fn run() -> Option<ExitCode> {
    let mut arguments = std::env::args();
    let name = arguments.next()?;
    let nodes = arguments.next().unwrap_or_default();
    let spools = paths::SPOOLS.map(Path::new);
    let paths = HookPaths { spools: &spools, fleet: Path::new(paths::FLEET_FILE) };
    let name = Path::new(&name).file_name()?.to_str()?;
    let on_node: Option<fn()> = match name {
        "kiln-epilog" => Some(kiln_node::epilog::run),
        "kiln-health" => Some(kiln_node::health::run),
        _ => None,
    };
    if let Some(run) = on_node {
        run();
        return Some(ExitCode::SUCCESS);
    }
    let accepted = match name {
        "kiln-reboot" => hooks::reboot(paths, &nodes),
        "kiln-resume" => {
            let file = std::env::var_os("SLURM_RESUME_FILE").map(PathBuf::from);
            hooks::resume(paths, &nodes, file.as_deref())
        }
        "kiln-suspend" => hooks::suspend(paths, &nodes),
        "kiln-resume-fail" => hooks::give_up(paths, &nodes),
        _ => return None,
    };
    // Slurm only logs the exit code.
    Some(if accepted.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! A compute node that lacks nothing but file systems that jobs need: it waits for their server, and joins when that is back.

use std::time::Duration;

use kiln_wire::bundle::MountSource;
use kiln_wire::{ApplyReport, Bundle, Outcome, Resource};

use crate::process;
use crate::systemd;

pub(super) const PAUSE: Duration = Duration::from_secs(10);

const BOOT: &str = "kiln-node.service";
const SLURMD: &str = "slurmd.service";

/// The required mounts of the site, and those of control, that could not be mounted. None, if anything else has failed as well.
pub(super) fn missing_mounts(bundle: &Bundle, report: &ApplyReport) -> Vec<String> {
    let is_required = |resource: &&Resource| match resource {
        Resource::Mount(mount) => match &mount.source {
            MountSource::Site(site) => site.required,
            MountSource::Nfs(_) | MountSource::Nfs3(_) => true,
            MountSource::Volume(_) => false,
        },
        _ => false,
    };
    let required: Vec<String> = bundle.resources.iter().filter(is_required).map(Resource::id).collect();
    let failed: Vec<&str> = report.with(Outcome::Failed).map(|failed| failed.id.as_str()).collect();
    if !failed.iter().all(|id| required.iter().any(|known| known == id)) {
        return Vec::new();
    }
    failed.into_iter().map(|id| id.trim_start_matches("mount:").to_owned()).collect()
}

/// After a bundle that came over SSH: what boots the node waits for the mounts from now on. A slurmd that runs goes on; its health
/// check sees to them.
pub fn try_again(bundle: &Bundle, report: &ApplyReport) {
    if report.dry_run || missing_mounts(bundle, report).is_empty() {
        return;
    }
    let Ok(states) = systemd::show(&[BOOT.to_owned(), SLURMD.to_owned()]) else { return };
    let is =
        |unit: &str, words: &[&str]| states.get(unit).is_some_and(|s| words.contains(&s.active.as_str()));
    let waits = is(BOOT, &["activating"]) || is(SLURMD, &["active", "activating"]);
    if bundle.role == "compute" && !waits {
        let _ = process::call(&["systemctl", "--no-block", "restart", BOOT]);
    }
}

#[cfg(test)]
mod tests {
    use kiln_wire::bundle::{Mount, SiteMount};
    use kiln_wire::make::file;
    use kiln_wire::{ResourceReport, Version};

    use super::*;

    fn mount(target: &str, required: bool) -> Resource {
        let source = MountSource::Site(SiteMount {
            source: "filer:/x".into(),
            kind: "nfs".into(),
            options: "nofail".into(),
            automount: false,
            required,
        });
        Resource::Mount(Mount {
            target: target.into(),
            source,
            read_only: false,
            format: false,
            quota: false,
        })
    }

    #[test]
    fn only_mounts_that_are_required_are_waited_for() {
        let mut home = mount("/home", false);
        if let Resource::Mount(mount) = &mut home {
            mount.source = MountSource::Nfs("10.0.0.2:/home".into());
        }
        let resources = vec![mount("/a", true), mount("/b", false), home, Resource::File(file("/etc/x", ""))];
        let bundle = Bundle {
            format: Version,
            cluster: "demo".into(),
            node: "n".into(),
            role: "compute".into(),
            kiln: None,
            resources,
        };
        let waits_for = |failed: &[&str]| {
            let report = |id: &&str| ResourceReport {
                id: (*id).into(),
                outcome: Outcome::Failed,
                summary: String::new(),
                diff: None,
                millis: 0,
            };
            let resources = failed.iter().map(report).collect();
            let report = ApplyReport {
                format: Version,
                node: "n".into(),
                digest: String::new(),
                dry_run: false,
                resources,
            };
            missing_mounts(&bundle, &report)
        };
        assert_eq!(waits_for(&["mount:/a"]), ["/a"]);
        assert_eq!(waits_for(&["mount:/home", "mount:/a"]), ["/home", "/a"]);
        for failed in [&["mount:/b"][..], &["mount:/a", "file:/etc/x"], &[]] {
            assert_eq!(waits_for(failed), [""; 0], "{failed:?}");
        }
    }
}

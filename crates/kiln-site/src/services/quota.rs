//! User quotas on the volume of the home directories. The file system keeps the limits, and the kernel of the control node enforces
//! them, also for what comes by NFS. The software is what `kiln quota` reads and sets them with.

use kiln_spec::{Role, Spec};
use kiln_wire::Resource;
use kiln_wire::bundle::{self, Link};
use kiln_wire::checkup::Question;
use kiln_wire::make::service;

use super::Service;
use crate::volumes::{Purpose, control_exports};

pub const QUOTA: Service = Service {
    name: "quota",
    asked_for: Some(|spec| spec.volumes.home_quota),
    software: |_| &["quota"],
    resources: |_| masked().into_iter().chain(stopped()).collect(),
    health,
    ..Service::EMPTY
};

/// Whether volumes of this cloud have file systems that can keep them.
pub(super) fn are_kept(spec: &Spec) -> bool {
    spec.volumes.home_quota && control_exports(spec)
}

/// At boot systemd starts one of these for a mount with quotas. It fails where the mount has begun them already.
fn masked() -> [Resource; 2] {
    ["quotaon.service", "quotaon@.service"].map(|unit| {
        Resource::Link(Link { path: format!("/etc/systemd/system/{unit}"), target: "/dev/null".into() })
    })
}

/// They come with the software: one counts files for quotas of another kind, one tells whoever asks about users.
fn stopped() -> [Resource; 2] {
    ["quota.service", "quotarpc.service"].map(|unit| {
        Resource::Service(bundle::Service { enabled: false, running: false, ..service(unit, &[]) })
    })
}

fn health(spec: &Spec, _: Role) -> Vec<Question> {
    let home = Purpose::Home.path();
    let otherwise =
        "user quotas are not enforced: the kernel has none, or /home was in use when they were to begin";
    let options = ["findmnt", "--noheadings", "--output", "OPTIONS", "--mountpoint", home];
    let question = || Question::new(otherwise, &options).shows("usrquota");
    are_kept(spec).then(question).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(cloud: &str, home: &str) -> Spec {
        let text = format!(
            "[cluster]\nname = \"demo\"\n[cloud]\n{cloud}\n[image.default]\nsource = \"bookworm\"\n[compute.a]\nnodes = \"a1\"\n[volumes]\nhome = {{ {home} }}\n"
        );
        kiln_spec::parse(&text, "x").unwrap_or_else(|e| panic!("{e}"))
    }

    const LOCAL: &str = "kind = \"local\"";
    const OPENSTACK: &str = "kind = \"openstack\"\nsubnet = \"10.0.0.0/24\"";

    #[test]
    fn quotas_are_kept_where_a_volume_is_a_disk() {
        for (cloud, home, is_wanted, questions) in [
            (LOCAL, "quota = true", true, 0),
            (OPENSTACK, "quota = true", true, 1),
            (OPENSTACK, "quota = false", false, 0),
            (OPENSTACK, "size = \"20 GiB\"", false, 0),
        ] {
            let spec = spec(cloud, home);
            assert_eq!(QUOTA.is_wanted(&spec), is_wanted, "{cloud} {home}");
            assert_eq!(health(&spec, Role::Control).len(), questions, "{cloud} {home}");
        }
    }
}

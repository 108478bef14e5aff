//! File systems of the site, mounted on the nodes of the roles that the file names.

use kiln_spec::{Role, SiteMount, Spec};
use kiln_wire::Resource;
use kiln_wire::bundle::{self, Mount, MountSource};
use kiln_wire::checkup::Question;

use super::{Context, Service};
use crate::volumes::Purpose;

/// Behind the site's own files, among which may be the key for a file server.
pub const MOUNTS: Service = Service {
    name: "mounts",
    asked_for: Some(|spec| !spec.mounts.is_empty()),
    resources: |context| of(context).filter(|mount| !is_home(mount)).map(resource).collect(),
    health,
    ..Service::EMPTY
};

/// What mounts of this type need in an image.
pub const NFS_MOUNTS: Service = Service {
    name: "nfs mounts",
    asked_for: Some(|spec| spec.mounts.iter().any(SiteMount::is_nfs)),
    software: |_| &["nfs-client"],
    ..Service::EMPTY
};

/// Home directories that are on a file server of the site. To be mounted before users get homes.
pub(super) fn home(context: &Context<'_>) -> Option<Resource> {
    of(context).find(|mount| is_home(mount)).map(resource)
}

/// Nodes of this role share the home directories of a file server.
pub(super) fn has_home(spec: &Spec, role: Role) -> bool {
    spec.mounts.iter().any(|mount| is_home(mount) && mount.roles.contains(&role))
}

fn is_home(mount: &SiteMount) -> bool {
    mount.path == Purpose::Home.path()
}

fn of<'c>(context: &Context<'c>) -> impl Iterator<Item = &'c SiteMount> {
    let (spec, role) = (context.spec, context.role);
    spec.mounts.iter().filter(move |mount| mount.roles.contains(&role))
}

fn resource(mount: &SiteMount) -> Resource {
    let source = MountSource::Site(bundle::SiteMount {
        source: mount.source.clone(),
        kind: mount.kind.clone(),
        options: options(mount).join(","),
        automount: mount.automount,
        required: mount.required,
    });
    let (target, read_only) = (mount.path.clone(), mount.is_read_only());
    Resource::Mount(Mount { target, source, read_only, format: false, quota: false })
}

/// Types that need no network.
const LOCAL: [&str; 8] = ["btrfs", "ext4", "none", "overlay", "ramfs", "tmpfs", "vfat", "xfs"];

/// What Kiln adds, unless the file says otherwise: a boot must come to its end without the file system, and what lies on it
/// gives nobody rights on the node.
fn options(mount: &SiteMount) -> Vec<String> {
    let mut options = mount.options.clone();
    let mut add = |option: &str, otherwise: &[&str]| {
        let is_said = |own: &String| own == option || otherwise.iter().any(|other| own.starts_with(other));
        if !options.iter().any(is_said) {
            options.push(option.to_owned());
        }
    };
    add("nosuid", &["suid"]);
    add("nodev", &["dev"]);
    add("nofail", &[]);
    add("x-systemd.mount-timeout=30s", &["x-systemd.mount-timeout="]);
    if !LOCAL.contains(&mount.kind.as_str()) {
        add("_netdev", &[]);
    }
    if mount.automount {
        add("x-systemd.automount", &[]);
    }
    options
}

/// One that is mounted at its first use need not be there.
fn health(spec: &Spec, role: Role) -> Vec<Question> {
    let there = spec.mounts.iter().filter(|mount| mount.roles.contains(&role) && !mount.automount);
    let question = |mount: &SiteMount| {
        Question::new(format!("{} is not mounted", mount.path), &["mountpoint", mount.path.as_str()])
    };
    there.map(question).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_site_come_first_and_are_not_contradicted() {
        let of = |text: &str| {
            let head = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\n";
            let spec =
                kiln_spec::parse(&format!("{head}[[mount]]\n{text}"), "x").unwrap_or_else(|e| panic!("{e}"));
            options(&spec.mounts[0]).join(",")
        };
        assert_eq!(
            of(
                "source = \"filer:/scratch\"\npath = \"/scratch\"\noptions = [\"vers=4.2\"]\nautomount = true"
            ),
            "vers=4.2,nosuid,nodev,nofail,x-systemd.mount-timeout=30s,_netdev,x-systemd.automount"
        );
        assert_eq!(
            of(
                "source = \"tmpfs\"\npath = \"/fast\"\ntype = \"tmpfs\"\noptions = [\"suid\", \"x-systemd.mount-timeout=5s\"]"
            ),
            "suid,x-systemd.mount-timeout=5s,nodev,nofail"
        );
    }
}

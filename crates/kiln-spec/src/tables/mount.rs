//! `[[mount]]`: file systems of the site that nodes mount.

use crate::diagnostic::Findings;
use crate::merge::Merged;
use crate::tables::volumes::VolumeMode;
use crate::validate::paths::is_plain_directory;
use crate::written::table::table;
use crate::written::{At, List, Text};
use crate::{Role, SiteMount};

table! {
    /// A file system of the site that nodes mount.
    MountTable {
        /// What to mount, as in `/etc/fstab`: `filer:/export/scratch`, a device, or `tmpfs`.
        "source" => source: Text, required;
        /// Directory where it is mounted. It is created.
        "path" => path: Text, required;
        /// Type of the file system: `nfs`, `ceph`, `lustre`, `tmpfs` or any other that the image has a program for. `none` with the option `bind` is another directory. Kiln installs the client of `nfs` only.
        "type" => kind: Text, default "nfs";
        /// Options for `mount`. Kiln adds `nosuid`, `nodev`, `nofail` and a time limit of 30 s unless they are contradicted here.
        "options" => options: List<Text>, empty;
        /// Roles of the nodes that mount it.
        "roles" => roles: List<At<Role>>, otherwise "`[\"login\", \"compute\"]`";
        /// Mount it when it is first used, and try again at each use while its server is away.
        "automount" => automount: At<bool>, default false;
        /// Jobs need it: without it slurmd does not start, and a node that loses it is drained. Other mounts that fail only cost themselves. `/home` is always required, unless it has `automount`.
        "required" => required: At<bool>, default false;
    }
}

/// Directories that a system, or Kiln, cannot do without.
const OWN: [&str; 14] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/mnt/volumes",
    "/proc",
    "/run",
    "/sbin",
    "/srv/kiln",
    "/sys",
    "/usr",
    "/var/lib/kiln",
    "/var/lib/state",
];
/// What lies below these may be mounted.
const PARENTS: [&str; 4] = ["/root", "/var", "/var/lib", "/var/log"];

pub(crate) const HOME: &str = "/home";

pub(crate) fn validate(merged: &Merged, findings: &mut Findings<'_>) -> Vec<SiteMount> {
    let mut mounts: Vec<SiteMount> = Vec::new();
    for table in &merged.mounts.value {
        let Some(mut mount) = mount(table, findings) else { continue };
        let Some(path) = &table.path else { continue };
        if mount.path == HOME && merged.home.mode != VolumeMode::None {
            (findings.error("duplicate-mount", path.span.clone(), "`/home` is a volume of the cluster"))
                .expected("another path")
                .hint("to have home directories elsewhere, set home = \"none\" in [volumes]");
        }
        // Without it, jobs would write to the root disk.
        mount.required |= mount.path == HOME && !mount.automount;
        let shares_role = |other: &&SiteMount| other.roles.iter().any(|role| mount.roles.contains(role));
        if mounts.iter().filter(shares_role).any(|other| other.path == mount.path) {
            let message = format!("`{}` is mounted twice on the same nodes", mount.path);
            findings
                .error("duplicate-mount", path.span.clone(), message)
                .expected("each path once for each role");
        }
        mounts.push(mount);
    }
    // Before those that may lie below it.
    mounts.splice(0..0, home(merged, findings));
    mounts
}

/// `[volumes] home = { mode = "nfs", ... }`.
fn home(merged: &Merged, findings: &mut Findings<'_>) -> Option<SiteMount> {
    let disk = &merged.home;
    if disk.mode != VolumeMode::Nfs {
        return None;
    }
    let Some(written) = &disk.source else {
        (findings.error(
            "missing-key",
            disk.at.clone(),
            "the file server of the home directories has no `source`",
        ))
        .expected("{ mode = \"nfs\", source = \"SERVER:/PATH\" }");
        return None;
    };
    let source = source(written, findings)?;
    if !source.contains(":/") {
        (findings.error("bad-source", written.span.clone(), format!("`{source}` is not on a file server")))
            .expected("SERVER:/PATH");
    }
    let options = disk.options.as_ref().map(|list| options(list, findings)).unwrap_or_default();
    Some(SiteMount {
        source,
        path: HOME.into(),
        kind: "nfs".into(),
        options,
        roles: Role::ALL.to_vec(),
        automount: false,
        required: true,
    })
}

fn mount(table: &MountTable, findings: &mut Findings<'_>) -> Option<SiteMount> {
    let source = table.source.as_ref().and_then(|text| source(text, findings));
    let path = table.path.as_ref().and_then(|text| path(text, findings));
    let kind = kind(&table.kind, findings);
    let options = options(&table.options, findings);
    let roles = match &table.roles {
        None => vec![Role::Login, Role::Compute],
        Some(list) if list.value.is_empty() => {
            findings.error("bad-role", list.span.clone(), "no node mounts it").expected("at least one role");
            return None;
        }
        Some(list) => list.value.iter().map(|role| role.value).collect(),
    };
    if table.required.value && table.automount.value {
        let message = "what is mounted at its first use cannot be waited for";
        (findings.error("bad-mount", table.automount.span.clone(), message))
            .expected("`automount` or `required`, not both");
    }
    Some(SiteMount {
        source: source?,
        path: path?,
        kind: kind?,
        options,
        roles,
        automount: table.automount.value,
        required: table.required.value,
    })
}

/// They are words of the mount table, which separates them by spaces and cannot have a `#` in front.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(['-', '#'])
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

fn source(text: &Text, findings: &mut Findings<'_>) -> Option<String> {
    if is_word(&text.value) {
        return Some(text.value.clone());
    }
    (findings.error("bad-source", text.span.clone(), format!("`{}` cannot be mounted", text.value)))
        .expected("one word, e.g. \"filer:/export/scratch\"");
    None
}

fn path(text: &Text, findings: &mut Findings<'_>) -> Option<String> {
    let path = text.value.as_str();
    let below = |own: &&str| path == *own || path.starts_with(&format!("{own}/"));
    if !is_plain_directory(path) {
        (findings.error("bad-path", text.span.clone(), format!("nothing can be mounted at `{path}`")))
            .expected("an absolute path of letters, digits, `_`, `.` and `-`, e.g. \"/scratch\"");
        None
    } else if OWN.iter().any(below) || PARENTS.contains(&path) {
        let message = format!("`{path}` is the system's own or Kiln's");
        findings
            .error("bad-path", text.span.clone(), message)
            .expected("another directory, e.g. \"/scratch\"");
        None
    } else {
        Some(path.to_owned())
    }
}

fn kind(text: &Text, findings: &mut Findings<'_>) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    if text.value.starts_with(|c: char| c.is_ascii_lowercase()) && text.value.bytes().all(plain) {
        return Some(text.value.clone());
    }
    (findings.error(
        "bad-type",
        text.span.clone(),
        format!("`{}` is not a type of file systems", text.value),
    ))
    .expected("a type that `mount` knows, e.g. \"nfs\", \"ceph\", \"lustre\" or \"tmpfs\"");
    None
}

fn options(list: &List<Text>, findings: &mut Findings<'_>) -> Vec<String> {
    for option in list.value.iter().filter(|option| !is_word(&option.value) || option.value.contains(',')) {
        let message = format!("`{}` is not an option of `mount`", option.value);
        (findings.error("bad-option", option.span.clone(), message))
            .expected("one option each, e.g. [\"vers=4.2\", \"noatime\"]");
    }
    list.value.iter().map(|option| option.value.clone()).collect()
}

//! What one apply knows while it runs: the tree, the accounts, systemd's states, and who waits for whom.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use kiln_wire::bundle::{Bundle, EVERYTHING, Resource, Service};
use kiln_wire::{Applied, AppliedResult, Outcome};

use super::{ApplyError, ApplyOptions};
use crate::accounts::Accounts;
use crate::state::{self, Manifest};
use crate::systemd::{self, Units};
use crate::tell_bundle;
use crate::tree::{Owner, Tree};
use crate::verdict::Verdict;

pub(crate) struct Session {
    pub tree: Tree,
    pub dry_run: bool,
    /// The tree is the running system's own.
    pub live: bool,
    pub accounts: Accounts,
    pub units: Units,
    pub manifest: Manifest,
    saved: Manifest,
    /// In the order in which they failed.
    failed: Vec<String>,
    /// What would be written from here on could end up below the mount point, where the next mount hides it.
    unmounted: Option<String>,
    /// Id of a mount -> the units that restart with it, the last of the bundle first.
    residents: BTreeMap<String, Vec<String>>,
}

impl Session {
    pub fn start(bundle: &Bundle, options: &ApplyOptions) -> Result<Self, ApplyError> {
        let tree = Tree::open(&options.root)?;
        let accounts = Accounts::read(&tree)?;
        let saved = Manifest::load(&tree)?;
        let services = || {
            bundle.resources.iter().filter_map(|resource| match resource {
                Resource::Service(service) if systemd::is_valid_unit(&service.unit) => Some(service),
                _ => None,
            })
        };
        let names = |service: &Service| service.unit.clone();
        // Not one that may yet be skipped, because something else fails: it would start at the next boot.
        let is_certain = |service: &&Service| service.enabled && service.needs.is_empty();
        let enabled = services().filter(is_certain).map(names).collect();
        let mut session = Session {
            units: Units::new(services().map(names).collect(), enabled),
            dry_run: options.dry_run,
            live: options.root == Path::new("/"),
            accounts,
            manifest: saved.clone(),
            saved,
            failed: Vec::new(),
            unmounted: None,
            residents: residents(bundle),
            tree,
        };
        // Recorded before they are written: an interrupted run must not leave files that the manifest does not list.
        session.manifest.paths.extend(owned_paths(bundle));
        let ids: HashSet<String> = bundle.resources.iter().map(Resource::id).collect();
        session.manifest.owed.retain(|id, _| ids.contains(id));
        session.save()?;
        Ok(session)
    }

    /// The failed resource that this one needs or would react to, if there is one. After a failed mount, that is every one.
    pub fn blocked_by(&self, resource: &Resource) -> Option<String> {
        if self.unmounted.is_some() {
            return self.unmounted.clone();
        }
        let (needs, causes): (&[String], &[String]) = match resource {
            Resource::File(file) => (&file.needs, &[]),
            Resource::Service(service) => (&service.needs, &service.restart_on),
            Resource::Command(command) => (&command.needs, &command.when_changed),
            _ => return None,
        };
        if needs.iter().any(|id| id == EVERYTHING) && !self.failed.is_empty() {
            return self.failed.first().cloned();
        }
        needs.iter().chain(causes).find(|id| self.failed.contains(*id)).cloned()
    }

    /// Failures besides the bundle's own resources. They count only for resources that need everything.
    pub fn failed_beside(&mut self, ids: impl IntoIterator<Item = String>) {
        self.failed.extend(ids);
    }

    /// The units that have their data on this mount.
    pub fn residents(&self, mount: &str) -> Vec<String> {
        self.residents.get(mount).cloned().unwrap_or_default()
    }

    /// Ids of the changes that a service or command has not answered yet, from this run or an earlier one.
    pub fn owed(&self, id: &str) -> BTreeSet<String> {
        self.manifest.owed.get(id).cloned().unwrap_or_default()
    }

    /// Records what became of a resource, before the next one runs.
    pub fn note(
        &mut self,
        bundle: &Bundle,
        resource: &Resource,
        verdict: &Verdict,
    ) -> Result<(), ApplyError> {
        let id = resource.id();
        match verdict.outcome {
            Outcome::Failed => {
                if let Resource::Mount(mount) = resource
                    && mount.is_written_to()
                {
                    self.unmounted = Some(id.clone());
                }
                self.failed.push(id);
            }
            Outcome::Skipped if self.blocked_by(resource).is_some() => {
                self.failed.push(id);
            }
            Outcome::Skipped => {}
            Outcome::Unchanged => {
                self.manifest.owed.remove(&id);
            }
            Outcome::Changed => {
                self.manifest.owed.remove(&id);
                if let Resource::File(_) | Resource::Link(_) = resource {
                    self.path_changed(id.split_once(':').map_or("", |(_, path)| path));
                }
                self.owe(bundle, &id);
            }
        }
        self.save()
    }

    pub fn path_changed(&mut self, path: &str) {
        if kiln_wire::bundle::is_unit_path(path) {
            self.units.unit_files_changed();
        }
    }

    /// All that react to a change of `id` now owe a reaction.
    pub fn owe(&mut self, bundle: &Bundle, id: &str) {
        for resource in &bundle.resources {
            let reacts = match resource {
                Resource::Service(service) => {
                    service.restart_on.iter().chain(&service.reload_on).any(|cause| cause == id)
                }
                Resource::Command(command) => command.when_changed.iter().any(|cause| cause == id),
                _ => false,
            };
            if reacts {
                self.manifest.owed.entry(resource.id()).or_default().insert(id.to_owned());
            }
        }
    }

    pub fn owner(&self, user: &str, group: &str) -> Result<Owner, ApplyError> {
        let uid = self
            .accounts
            .uid(user)
            .ok_or_else(|| ApplyError::Refused(format!("there is no user `{user}`")))?;
        let gid = self
            .accounts
            .gid(group)
            .ok_or_else(|| ApplyError::Refused(format!("there is no group `{group}`")))?;
        Ok(Owner { uid, gid })
    }

    pub fn owner_name(&self, uid: u32, gid: u32) -> String {
        format!("{}:{}", self.accounts.user_name(uid), self.accounts.group_name(gid))
    }

    pub fn reread_accounts(&mut self) -> Result<(), ApplyError> {
        self.accounts = Accounts::read(&self.tree)?;
        Ok(())
    }

    /// The rest of the bundle is applied another time.
    pub fn pause(mut self) -> Result<(), ApplyError> {
        if self.dry_run {
            return Ok(());
        }
        self.save()?;
        if self.live { Ok(self.units.finish()?) } else { Ok(()) }
    }

    pub fn finish(mut self, bundle: &Bundle, ok: bool) -> Result<(), ApplyError> {
        if self.dry_run {
            return Ok(());
        }
        self.save()?;
        if self.live {
            self.units.finish()?;
        }
        let applied = Applied {
            format: kiln_wire::Version,
            digest: bundle.digest(),
            cluster: bundle.cluster.clone(),
            node: bundle.node.clone(),
            role: bundle.role.clone(),
            time: jiff::Timestamp::now(),
            result: if ok { AppliedResult::Ok } else { AppliedResult::Failed },
        };
        state::save_applied(&self.tree, &applied)?;
        if self.live && ok && applied.role == "compute" {
            tell_bundle::tell(&applied.node, &applied.digest);
        }
        Ok(())
    }

    pub fn save(&mut self) -> Result<(), ApplyError> {
        if !self.dry_run && self.manifest != self.saved {
            self.manifest.save(&self.tree)?;
            self.saved = self.manifest.clone();
        }
        Ok(())
    }
}

fn residents(bundle: &Bundle) -> BTreeMap<String, Vec<String>> {
    let mut residents: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for resource in bundle.resources.iter().rev() {
        let Resource::Service(service) = resource else { continue };
        for mount in service.restart_on.iter().filter(|id| id.starts_with("mount:")) {
            residents.entry(mount.clone()).or_default().push(service.unit.clone());
        }
    }
    residents
}

/// Files and links are Kiln's to remove again; directories may have come to hold what is not.
pub(crate) fn owned_paths(bundle: &Bundle) -> BTreeSet<String> {
    bundle
        .resources
        .iter()
        .filter_map(|resource| match resource {
            Resource::File(file) => Some(file.path.clone()),
            Resource::Link(link) => Some(link.path.clone()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lives_on_a_mount_is_stopped_from_the_top() {
        let service = |unit: &str, restart_on: &[&str]| {
            let restart_on = restart_on.iter().map(ToString::to_string).collect();
            let unit = unit.to_owned();
            let reload_on = Vec::new();
            Resource::Service(kiln_wire::bundle::Service {
                unit,
                enabled: true,
                running: true,
                restart_on,
                reload_on,
                needs: Vec::new(),
            })
        };
        let bundle = Bundle {
            kiln: None,
            format: kiln_wire::Version,
            cluster: "demo".into(),
            node: "control".into(),
            role: "control".into(),
            resources: vec![
                service("mariadb.service", &["file:/etc/x", "mount:/var/lib/state"]),
                service("munge.service", &["file:/etc/munge/munge.key"]),
                service("slurmctld.service", &["mount:/var/lib/state"]),
            ],
        };
        let expected =
            [("mount:/var/lib/state".to_owned(), vec!["slurmctld.service".into(), "mariadb.service".into()])];
        assert_eq!(residents(&bundle), BTreeMap::from(expected));
    }
}

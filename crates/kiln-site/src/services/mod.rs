//! What runs on the nodes: one file per service and one ordered list per role. Bundles, image recipes, firewall rules
//! and secrets all derive from these lists, so that a new service is a new file and a line in them.

mod service;

pub mod accounting;
mod authority;
mod backup;
mod base;
mod certificates;
mod checkup;
pub mod dashboard;
pub mod directory;
mod health_check;
mod hooks;
mod hosts;
mod job_access;
mod journal;
mod kilnd;
mod limits;
mod metadata;
pub mod monitoring;
mod mounts;
mod munge;
mod nfs_client;
mod nfs_server;
mod quota;
pub mod rest;
pub(crate) mod settings;
mod site_files;
mod slurm;
pub mod slurm_accounts;
mod slurmctld;
mod slurmd;
mod sshd;
mod storage;
mod syslog;
mod time;
mod users;

use std::collections::BTreeSet;

use kiln_distro::Family;
use kiln_spec::{Role, Spec};
use kiln_wire::Version;
use kiln_wire::checkup::{CertificateFile, Checkup, Question, ServiceCheck};
pub use service::{Context, ForJobs, OpenTo, Port, Service, Starts, Unit};

use crate::secret::Secret;
use crate::volumes::Purpose;

pub use authority::CLUSTER_CA;
pub use base::NODE_SEED;
pub use kilnd::CLOUD_TOKEN;
pub use monitoring::METRICS_TOKEN;
pub(crate) use site_files::site_file;
pub use sshd::SSH_KEY;

/// In the order in which a node applies them.
const CONTROL: &[&Service] = &[
    &base::BASE,
    &hosts::HOSTS,
    &storage::STORAGE,
    &nfs_client::NFS_CLIENT,
    &mounts::NFS_MOUNTS,
    // The first that runs: behind the mounts, of which systemd is to be told as well.
    &journal::JOURNAL,
    &quota::QUOTA,
    &time::TIME,
    &time::TIME_ZONE,
    &certificates::CERTIFICATES,
    &settings::SETTINGS,
    &syslog::SYSLOG,
    &nfs_server::NFS_SERVER,
    // Before all that a change of the database must not touch.
    &accounting::PLACE,
    &munge::MUNGE,
    // Before the users, who must not find the metadata open.
    &metadata::METADATA,
    &users::USERS,
    // Before Slurm, which asks for users.
    &directory::SERVER,
    &directory::SITE_PASSWORD,
    &directory::CLIENT,
    &sshd::SSHD,
    // Before accounting: sacctmgr asks slurm.conf where slurmdbd is.
    &slurm::SLURM,
    // Before those who check tokens.
    &rest::TOKENS,
    &accounting::SOFTWARE,
    &accounting::ACCOUNTING,
    &accounting::EXTERNAL,
    &slurm_accounts::SLURM_ACCOUNTS,
    // slurmctld reads their names in slurm.conf.
    &hooks::HOOKS,
    &slurmctld::SLURMCTLD,
    &slurm_accounts::TRACKED_RESOURCES,
    &rest::REST,
    &dashboard::DASHBOARD_AUTHORITY,
    &kilnd::KILND,
    &dashboard::DASHBOARD,
    &checkup::CHECKUP,
    &backup::BACKUP,
    &monitoring::NODE_EXPORTER,
    &monitoring::ALERTMANAGER,
    // Behind kilnd and Alertmanager, which it asks and tells.
    &monitoring::PROMETHEUS,
    &monitoring::GRAFANA,
    &site_files::SITE_FILES,
    &mounts::MOUNTS,
];

const LOGIN: &[&Service] = &[
    &base::BASE,
    &hosts::HOSTS,
    &storage::STORAGE,
    &nfs_client::NFS_CLIENT,
    &mounts::NFS_MOUNTS,
    // The first that runs: behind the mounts, of which systemd is to be told as well.
    &journal::JOURNAL,
    &time::TIME,
    &time::TIME_ZONE,
    &certificates::CERTIFICATES,
    &settings::SETTINGS,
    &syslog::SYSLOG,
    &munge::MUNGE,
    // Before the users, who must not find the metadata open.
    &metadata::METADATA,
    &users::USERS,
    &directory::SITE_PASSWORD,
    &directory::CLIENT,
    &sshd::SSHD,
    &limits::LIMITS,
    &slurm::SLURM,
    &rest::REST_TRUST,
    &monitoring::NODE_EXPORTER,
    &checkup::CHECKUP,
    &checkup::REPORT,
    &site_files::SITE_FILES,
    &mounts::MOUNTS,
];

const COMPUTE: &[&Service] = &[
    &base::BASE,
    &hosts::HOSTS,
    &storage::STORAGE,
    &nfs_client::NFS_CLIENT,
    &mounts::NFS_MOUNTS,
    // The first that runs: behind the mounts, of which systemd is to be told as well.
    &journal::JOURNAL,
    &time::TIME,
    &time::TIME_ZONE,
    &certificates::CERTIFICATES,
    &settings::SETTINGS,
    &syslog::SYSLOG,
    &munge::MUNGE,
    // Before the users, who must not find the metadata open.
    &metadata::METADATA,
    &users::USERS,
    &directory::SITE_PASSWORD,
    &directory::CLIENT,
    &job_access::JOB_ACCESS,
    &job_access::JOB_ADOPTION,
    &sshd::SSHD,
    &limits::LIMITS,
    &slurm::SLURM,
    &rest::REST_TRUST,
    &monitoring::NODE_EXPORTER,
    &site_files::SITE_FILES,
    &mounts::MOUNTS,
    &health_check::HEALTH_CHECK,
    // Last: a node that could not be configured must not take jobs.
    &slurmd::SLURMD,
];

/// The services of a role, in the order in which a node applies them.
pub fn of(role: Role) -> &'static [&'static Service] {
    match role {
        Role::Control => CONTROL,
        Role::Login => LOGIN,
        Role::Compute => COMPUTE,
    }
}

/// Every service once.
fn all() -> Vec<&'static Service> {
    let mut names = BTreeSet::new();
    let lists = Role::ALL.into_iter().flat_map(of).copied();
    lists.filter(|service| names.insert(service.name)).collect()
}

/// What a service of this name needs on nodes of a role.
pub(crate) fn software_of(name: &str, role: Role) -> &'static [&'static str] {
    of(role).iter().find(|service| service.name == name).map_or(&[], |service| (service.software)(role))
}

/// The packages that an image for nodes of these roles needs. Of a role that is `present` already, because the image is built
/// on one for nodes of that role, only what not every cluster has: the other may have been made for a cluster without.
pub fn packages(spec: &Spec, family: &Family, roles: &[Role], present: &[Role]) -> BTreeSet<&'static str> {
    let services = |role: Role| of(role).iter().filter(|s| s.is_wanted(spec));
    roles
        .iter()
        .flat_map(|role| services(*role).map(move |service| (*role, *service)))
        .filter(|(role, service)| !present.contains(role) || !service.is_everywhere())
        .flat_map(|(role, service)| (service.software)(role))
        .flat_map(|software| family.packages(software))
        .collect()
}

/// The packages that nodes of these roles need on some clouds, whichever.
pub fn packages_of_clouds(family: &Family, roles: &[Role]) -> BTreeSet<&'static str> {
    let some_clouds = |role: &Role| of(*role).iter().filter(|service| service.wanted.is_some());
    roles
        .iter()
        .flat_map(|role| some_clouds(role).flat_map(|service| (service.software)(*role)))
        .flat_map(|software| family.packages(software))
        .collect()
}

/// The units that an image has enabled and those that it has disabled, by the family's names for them.
pub fn units_of_image(family: &Family) -> (Vec<&'static str>, Vec<&'static str>) {
    let start = |wanted: &[Starts]| {
        let units = all().into_iter().flat_map(|service| service.units);
        units.filter(|unit| wanted.contains(&unit.starts)).map(|unit| family.unit(unit.name)).collect()
    };
    let mut disabled: Vec<&str> = start(&[Starts::WithBundle, Starts::Never]);
    disabled.extend(family.unwanted_units);
    (start(&[Starts::AtBoot]), disabled)
}

/// How a node of this role is asked whether its services work. Services without anything to ask are left out.
pub fn checks(spec: &Spec, role: Role, family: &Family) -> Vec<ServiceCheck> {
    let ask = |ask: &kiln_distro::Ask| Question::new(ask.complaint, ask.command);
    let system = ServiceCheck {
        service: "system".to_string(),
        units: Vec::new(),
        questions: family.checks.iter().map(ask).collect(),
    };
    let services = of(role).iter().filter(|service| service.is_wanted(spec));
    let services = services.map(|service| check_of(service, spec, role, family));
    let checks = std::iter::once(system).chain(services);
    checks.filter(|check| !check.units.is_empty() || !check.questions.is_empty()).collect()
}

/// All that a node of this role is asked about itself, by whomever.
pub fn checkup(spec: &Spec, role: Role, family: &Family) -> Checkup {
    let mut places = vec!["/".to_string()];
    // Volumes are control's to watch.
    if role == Role::Control {
        places.extend(Purpose::ALL.map(|purpose| purpose.path().to_string()));
    }
    let wanted = of(role).iter().filter(|service| service.is_wanted(spec));
    let files = wanted.flat_map(|service| service.certificates);
    let of_services = files.map(|(name, path)| ((*name).to_string(), (*path).to_string()));
    let of_site = certificates::files(spec, family);
    let certificates = of_services.chain(of_site).map(|(name, path)| CertificateFile { name, path });
    Checkup {
        format: Version,
        services: checks(spec, role, family),
        places,
        certificates: certificates.collect(),
    }
}

fn check_of(service: &Service, spec: &Spec, role: Role, family: &Family) -> ServiceCheck {
    let units = service.units.iter().filter(|unit| unit.starts != Starts::Never);
    ServiceCheck {
        service: service.name.to_string(),
        units: units.map(|unit| family.unit(unit.name).to_string()).collect(),
        questions: (service.health)(spec, role),
    }
}

/// The units to stop before a node of this role is taken away, in the order in which to stop them.
pub fn units_to_stop(spec: &Spec, role: Role, family: &Family) -> Vec<&'static str> {
    let units = of(role).iter().filter(|service| service.is_wanted(spec)).flat_map(|service| service.units);
    units.filter(|unit| unit.saves_on_stop).map(|unit| family.unit(unit.name)).rev().collect()
}

/// What the installation of software leaves in an image and must be removed from it.
pub fn leftovers() -> Vec<&'static str> {
    all().into_iter().flat_map(|service| service.leftovers).copied().collect()
}

/// The TCP ports that are open to these.
pub fn ports(open_to: OpenTo) -> Vec<u16> {
    let ports = all().into_iter().flat_map(|service| service.ports);
    ports.filter(|port| port.open_to == open_to).map(|port| port.tcp).collect()
}

/// The secrets that a site gives to the cluster. They are never made here.
pub fn given_secrets(spec: &Spec) -> Vec<&'static str> {
    // slurmdbd and slurmctld know each other by it.
    let munge = spec.accounting.as_ref().map(|_| munge::MUNGE_KEY.name);
    let directory = spec.directory.as_ref().and_then(kiln_spec::Directory::bind_dn);
    munge.into_iter().chain(directory.map(|_| directory::BIND_PASSWORD.name)).collect()
}

/// The secrets of all services, in the order of the services on control.
pub fn secrets() -> Vec<&'static Secret> {
    secrets_among(all())
}

/// Those of the services that a cluster has.
pub fn secrets_of(spec: &Spec) -> Vec<&'static Secret> {
    secrets_among(all().into_iter().filter(|service| service.is_wanted(spec)))
}

/// Several services may need the same one.
fn secrets_among(services: impl IntoIterator<Item = &'static Service>) -> Vec<&'static Secret> {
    let mut names = BTreeSet::new();
    let secrets = services.into_iter().flat_map(|service| service.secrets);
    secrets.filter(|secret| names.insert(secret.name)).collect()
}

#[cfg(test)]
mod tests;

//! One interface for every cloud. A closed set of drivers: an enum, not a trait object.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::driver::Driver;
#[cfg(any(test, feature = "testing"))]
use crate::memory;
use crate::meter::{self, Answer as _};
use crate::{
    AddressRange, Error, Expiry, Flavor, Image, Instance, InstanceStatus, Kind, Labels, Layers, Limit,
    Network, NewExports, NewImage, NewInstance, NewNetwork, NewSecurityGroup, NewVolume, Quota, Rebuild,
    Result, Right, SecurityGroup, Volume, local, oci, openstack,
};
use kiln_wire::labels;

/// Makes the enums over the drivers from the one list of them.
macro_rules! drivers {
    ($d:tt $($(#[$attribute:meta])* $variant:ident($module:ident), $kind:literal $(, $spec:ident)?;)*) => {
        #[derive(Debug, Clone)]
        pub enum Cloud {
            $($(#[$attribute])* $variant($module::Driver),)*
        }

        /// How a cluster's control node reaches the cloud it is in.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub enum Access {
            $($(#[$attribute])* #[serde(rename = $kind)] $variant(Box<$module::Access>),)*
        }

        impl Cloud {
            /// The cloud of a cluster file, seen from the deploy host. Nothing is sent yet.
            pub fn open(spec: &kiln_spec::CloudSpec) -> Result<Cloud> {
                match spec {
                    $($(kiln_spec::CloudSpec::$variant(settings) => {
                        let settings: &kiln_spec::$spec = settings;
                        $module::Driver::open(settings).map(Cloud::$variant)
                    })?)*
                }
            }

            /// A cloud seen from the control node of a cluster in it.
            pub fn at(access: &Access) -> Result<Cloud> {
                match access {
                    $($(#[$attribute])* Access::$variant(access) => {
                        <$module::Driver as Driver>::at(access).map(Cloud::$variant)
                    })*
                }
            }

            /// What the control node of a cluster needs to know to use a token that [`Cloud::grant`] made valid.
            /// `networks`: those the cluster has.
            pub async fn access(&self, cluster: &str, token: &str, networks: &[Network]) -> Result<Access> {
                match self {
                    $($(#[$attribute])* Cloud::$variant(driver) => {
                        let access = Driver::access(driver, cluster, token, networks).await?;
                        Ok(Access::$variant(Box::new(access)))
                    })*
                }
            }
        }

        /// Passes a call on to the driver.
        macro_rules! each {
            ($d self:ident, $d driver:ident => $d call:expr) => {
                match $d self {
                    $($(#[$attribute])* Cloud::$variant($d driver) => $d call,)*
                }
            };
        }
    };
}

drivers! { $
    Local(local), "local", LocalSpec;
    OpenStack(openstack), "openstack", OpenStackSpec;
    Oci(oci), "oci", OciSpec;
    #[cfg(any(test, feature = "testing"))] Memory(memory), "memory";
}

/// Makes each call one of the driver's.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl Cloud {
            $($(#[$doc])*
            pub async fn $name(&self, $($argument: $type),*) -> $answer {
                let asked = std::time::Instant::now();
                let answer = each!(self, driver => Driver::$name(driver, $($argument),*).await);
                meter::note(stringify!($name), answer.is_failed(), asked.elapsed());
                answer
            })*
        }
    };
}

calls! {
    /// That what the cluster file names beside its nodes is there: before anything is made.
    fn check() -> Result<()>;

    /// All instances labelled with the cluster, oldest first.
    fn instances(cluster: &str) -> Result<Vec<Instance>>;

    fn instance(id: &str) -> Result<Instance>;

    /// Returns when the cloud has accepted or refused each; they are `Building` then. A second instance of
    /// the same name in the same cluster is a conflict.
    fn create(new: Vec<NewInstance>) -> Vec<Result<Instance>>;

    /// A fresh root from the image, in place: id, address and volumes stay. Returns when accepted.
    fn rebuild(id: &str, new: Rebuild) -> Result<Instance>;

    /// Returns when the instance is booting again.
    fn reboot(id: &str, hard: bool) -> Result<Instance>;

    /// Returns when the instance is off.
    fn stop(id: &str, hard: bool) -> Result<Instance>;

    fn start(id: &str) -> Result<Instance>;

    /// Returns when the instance is gone; that it never was is as good.
    fn delete(id: &str) -> Result<()>;

    /// As [`Cloud::delete`], for many at once; `gone` hears the id of each that is gone.
    fn delete_all(ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Vec<Result<()>>;

    /// Leaves the instance's other labels as they are, which others may be about to change.
    fn add_labels(id: &str, labels: Labels) -> Result<Instance>;

    /// Adds labels to a resource that has the cluster's label.
    fn label(kind: Kind, id: &str, labels: Labels) -> Result<()>;

    /// Replaces all labels.
    fn set_labels(id: &str, labels: Labels) -> Result<Instance>;

    fn console_log(id: &str, lines: usize) -> Result<String>;

    fn images() -> Result<Vec<Image>>;

    /// Ids of those that instances run, of whatever cluster, as far as the cloud shows them.
    fn used_images() -> Result<BTreeSet<String>>;

    fn image(id: &str) -> Result<Image>;

    /// By name or id; the newest of a name.
    fn find_image(name: &str) -> Result<Image>;

    /// From the root disk of a stopped instance. `copied` hears when the disk is copied and only properties are left to set.
    fn create_image(instance: &str, new: NewImage, copied: &(dyn Fn() + Sync)) -> Result<Image>;

    /// Deletes what an image build of the cluster that was cut off has left half made. For before its instance is deleted.
    fn clear_build(cluster: &str) -> Result<()>;

    /// From a file with a disk in it, qcow2 or raw, under a name that is found again by [`Cloud::find_image`].
    fn upload_image(new: NewImage, file: &Path) -> Result<Image>;

    /// The directories that an image consists of, on this host.
    fn layers(image: &str) -> Result<Layers>;

    /// The disk that an image is, qcow2 or raw, in place of what the file has.
    fn download_image(image: &str, to: &File) -> Result<()>;

    /// Also of a source image. What was made from the image goes on: it holds on to the parts it uses.
    fn delete_image(id: &str) -> Result<()>;

    /// The plain image of a system, found or made. `progress` hears of the steps.
    fn source_image(suite: &str, progress: &(dyn Fn(&str) + Sync)) -> Result<Image>;

    fn volumes(cluster: &str) -> Result<Vec<Volume>>;

    fn volume_by_name(name: &str) -> Result<Option<Volume>>;

    fn create_volume(new: NewVolume) -> Result<Volume>;

    /// Makes it this large, also while instances have it. Returns when it is; that it was already is as good. The file system on
    /// it is the nodes' affair.
    fn grow_volume(id: &str, size_gib: u64) -> Result<Volume>;

    fn delete_volume(id: &str) -> Result<()>;

    /// One that the cloud serves over NFS itself, and that grows by itself. Among the volumes from then on, and deleted as they are.
    fn create_file_system(name: &str, labels: Labels) -> Result<Volume>;

    /// Lets the nodes of a cluster mount file systems, and nobody else. Tells from where, by their ids. What was said before of
    /// who may is replaced. [`Cloud::sweep`] takes it all back.
    fn export(new: NewExports) -> Result<BTreeMap<String, String>>;

    fn networks(cluster: &str) -> Result<Vec<Network>>;

    /// One that exists, whoever made it: for a cluster to use, not to own.
    fn network_by_name(name: &str) -> Result<Option<Network>>;

    fn create_network(new: NewNetwork) -> Result<Network>;

    /// From now on, addresses that nobody asks for are taken from `range` alone. What was taken before stays.
    fn set_automatic(network: &str, ranges: Vec<AddressRange>) -> Result<()>;

    /// Addresses of a network that are taken by what is not the cluster's, each with who has it.
    fn foreign_addresses(network: &str, cluster: &str) -> Result<BTreeMap<IpAddr, String>>;

    fn delete_network(id: &str) -> Result<()>;

    fn security_groups(cluster: &str) -> Result<Vec<SecurityGroup>>;

    fn create_security_group(new: NewSecurityGroup) -> Result<SecurityGroup>;

    fn delete_security_group(id: &str) -> Result<()>;

    fn flavors() -> Result<Vec<Flavor>>;

    /// The same, and those of these names that a cloud can make in any size.
    fn flavors_named(names: &[String]) -> Result<Vec<Flavor>>;

    /// What is limited. Empty: nothing is, or the cloud does not say.
    fn quotas() -> Result<Vec<Quota>>;

    /// How many instances of these flavors there can be. Empty: there is no limit, or the cloud does not say.
    fn limits(flavors: &[String]) -> Result<Vec<Limit>>;

    /// Where instances are in the cloud's network, by their ids: their switch, last, and those above it. Only of those that the
    /// cloud says it of.
    fn switches(instances: &[Instance]) -> Result<BTreeMap<String, Vec<String>>>;

    /// The credentials of this host and of the cluster's control node that end some day.
    fn expiries(cluster: &str) -> Result<Vec<Expiry>>;

    /// The certificates of the cloud's services, as far as they show any.
    fn certificates() -> Result<Vec<Expiry>>;

    /// Makes a token valid for what the control node of one cluster has to do, in place of any earlier one.
    fn grant(cluster: &str, token: &str) -> Result<()>;

    fn revoke(cluster: &str) -> Result<()>;

    /// What the cloud's administrators have to make so that the cluster's control node can use it, and what of that is
    /// there. Empty: nothing. With `make`, what is missing is made, as far as this host's credentials allow.
    fn rights(cluster: &str, make: bool) -> Result<Vec<Right>>;

    /// Deletes what belonged to the cluster's instances and is in no listing: key pairs, ports, addresses. For when they
    /// are all gone.
    fn sweep(cluster: &str) -> Result<()>;

    /// Ends what runs only to serve this cloud, if nothing is left to serve. `false`: something is left.
    fn retire() -> Result<bool>;
}

impl Cloud {
    /// The local cloud under a directory of this host; see [`local::default_root`]. Nothing is started yet.
    pub fn local(root: PathBuf) -> Cloud {
        Cloud::Local(local::Driver::at_root(root))
    }

    /// The same, with a `kiln` program other than this process's own.
    pub fn local_with(root: PathBuf, program: PathBuf) -> Cloud {
        Cloud::Local(local::Driver::at_root_with(root, program))
    }

    /// A local cloud seen from one of its instances, at its network's `api_url`, with a granted token.
    pub fn local_at(url: &str, token: &str) -> Cloud {
        Cloud::Local(local::Driver::at_url(url, token))
    }

    /// An OpenStack project, with the credentials that the cluster file or the environment names. Nothing is sent yet.
    pub fn openstack(settings: &openstack::Settings) -> Result<Cloud> {
        openstack::Driver::open(settings).map(Cloud::OpenStack)
    }

    /// Waits until all are active, listing rather than asking for each. `on_progress` sees every listing,
    /// reduced to these instances. The first instance in error, or gone, ends the wait.
    pub async fn wait_active(
        &self,
        ids: &[String],
        deadline: Instant,
        mut on_progress: impl FnMut(&[Instance]) + Send,
    ) -> Result<Vec<Instance>> {
        let Some(first) = ids.first() else {
            return Ok(Vec::new());
        };
        let cluster = self.instance(first).await?.labels.get(labels::CLUSTER).cloned();
        loop {
            let mut seen = match &cluster {
                Some(cluster) => self.instances(cluster).await?,
                // Without a label there is no list to be in.
                None => self.each_instance(ids).await?,
            };
            seen.retain(|i| ids.contains(&i.id));
            on_progress(&seen);
            if let Some(waiting) = judge(ids, &seen)? {
                if Instant::now() >= deadline {
                    return Err(Error::failed(format!("not active in time: {}", waiting.join(", "))));
                }
            } else {
                return Ok(seen);
            }
            sleep(self.poll_interval()).await;
        }
    }

    async fn each_instance(&self, ids: &[String]) -> Result<Vec<Instance>> {
        let mut all = Vec::with_capacity(ids.len());
        for id in ids {
            all.push(self.instance(id).await?);
        }
        Ok(all)
    }

    /// Between two listings of those who wait for something.
    pub fn poll_interval(&self) -> std::time::Duration {
        fn poll<D: Driver>(_: &D) -> std::time::Duration {
            D::POLL
        }
        each!(self, driver => poll(driver))
    }
}

/// `None`: all are active. Otherwise the names of those that are not yet.
fn judge(ids: &[String], seen: &[Instance]) -> Result<Option<Vec<String>>> {
    if let Some(gone) = ids.iter().find(|id| !seen.iter().any(|i| i.id == **id)) {
        return Err(Error::not_found("instance", gone.clone()));
    }
    let mut waiting = Vec::new();
    for instance in seen {
        match &instance.status {
            InstanceStatus::Active => {}
            InstanceStatus::Error { reason } => {
                return Err(Error::failed(format!("{}: {reason}", instance.name)));
            }
            InstanceStatus::Building
            | InstanceStatus::Rebuilding
            | InstanceStatus::Stopped
            | InstanceStatus::Held { .. }
            | InstanceStatus::Deleting => {
                waiting.push(format!("{} ({})", instance.name, instance.status.word()));
            }
        }
    }
    Ok((!waiting.is_empty()).then_some(waiting))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_an_access_are_not_shown() {
        let openstack = r#"{"kind":"openstack","auth_url":"u","interface":"public","user_id":"i","credential":"c",
            "secret":"s3cret","settings":{}}"#;
        for access in [r#"{"kind":"local","url":"u","token":"s3cret"}"#, openstack] {
            let access: Access = serde_json::from_str(access).unwrap();
            let shown = format!("{access:?} {:?}", Cloud::at(&access).ok());
            assert!(shown.contains("Cloud") || shown.contains("url"), "{shown}");
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }

    fn instance(id: &str, status: InstanceStatus) -> Instance {
        Instance { name: format!("name-{id}"), status, ..crate::testing::instance(id) }
    }

    /// Callers run these on any thread of their runtime.
    #[tokio::test]
    async fn calls_can_be_spawned() {
        fn sendable<T: Send>(_: T) {}
        let cloud = Cloud::local("/nowhere".into());
        sendable(cloud.create(vec![]));
        sendable(cloud.instances("c"));
        sendable(cloud.source_image("s", &|_| {}));
        sendable(cloud.wait_active(&[], Instant::now(), |_| {}));
        sendable(cloud.create_volume(NewVolume { name: "v".into(), size_gib: 1, labels: Labels::new() }));
        sendable(cloud.retire());
    }

    #[test]
    fn waiting_ends_when_all_are_active() {
        let ids = ["a".to_string(), "b".to_string()];
        let active = || instance("a", InstanceStatus::Active);
        assert_eq!(
            judge(&ids, &[active(), instance("b", InstanceStatus::Building)]).unwrap(),
            Some(vec!["name-b (building)".to_string()])
        );
        assert_eq!(judge(&ids, &[active(), instance("b", InstanceStatus::Active)]).unwrap(), None);
    }

    #[test]
    fn an_error_is_told_in_the_clouds_words() {
        let ids = ["a".to_string()];
        let error =
            judge(&ids, &[instance("a", InstanceStatus::Error { reason: "no host".into() })]).unwrap_err();
        assert_eq!(error.to_string(), "name-a: no host");
        assert!(matches!(judge(&ids, &[]), Err(error) if error.is_not_found()));
    }
}

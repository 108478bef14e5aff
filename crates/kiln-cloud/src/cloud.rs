//! One interface for every cloud. A closed set of drivers: an enum, not a trait object.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tokio::time::{Instant, sleep};

use crate::{
    Access, AddressRange, Error, Flavor, Image, Instance, InstanceStatus, Labels, Network, NewImage,
    NewInstance, NewNetwork, NewSecurityGroup, NewVolume, Rebuild, Result, SecurityGroup, Volume, label,
    local, openstack,
};

#[derive(Debug, Clone)]
pub enum Cloud {
    Local(local::Driver),
    OpenStack(openstack::Driver),
}

/// Passes a call on to the driver.
macro_rules! each {
    ($self:ident, $driver:ident => $call:expr) => {
        match $self {
            Cloud::Local($driver) => $call,
            Cloud::OpenStack($driver) => $call,
        }
    };
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
    pub fn openstack(settings: openstack::Settings) -> Result<Cloud> {
        openstack::Driver::new(settings).map(Cloud::OpenStack)
    }

    /// A cloud seen from the control node of a cluster in it.
    pub fn at(access: &Access) -> Result<Cloud> {
        match access {
            Access::Local { url, token } => Ok(Cloud::local_at(url, token)),
            Access::OpenStack(access) => openstack::Driver::at(access).map(Cloud::OpenStack),
        }
    }

    /// That what the cluster file names beside its nodes is there: before anything is made.
    pub async fn check(&self) -> Result<()> {
        each!(self, d => d.check().await)
    }

    /// All instances labelled with the cluster, oldest first.
    pub async fn instances(&self, cluster: &str) -> Result<Vec<Instance>> {
        each!(self, d => d.instances(cluster).await)
    }

    pub async fn instance(&self, id: &str) -> Result<Instance> {
        each!(self, d => d.instance(id).await)
    }

    /// Returns when the cloud has accepted or refused each; they are `Building` then. A second instance of
    /// the same name in the same cluster is a conflict.
    pub async fn create(&self, new: Vec<NewInstance>) -> Vec<Result<Instance>> {
        each!(self, d => d.create(new).await)
    }

    /// A fresh root from the image, in place: id, address and volumes stay. Returns when accepted.
    pub async fn rebuild(&self, id: &str, new: Rebuild) -> Result<Instance> {
        each!(self, d => d.rebuild(id, new).await)
    }

    /// Returns when the instance is booting again.
    pub async fn reboot(&self, id: &str, hard: bool) -> Result<Instance> {
        each!(self, d => d.reboot(id, hard).await)
    }

    /// Returns when the instance is off.
    pub async fn stop(&self, id: &str, hard: bool) -> Result<Instance> {
        each!(self, d => d.stop(id, hard).await)
    }

    pub async fn start(&self, id: &str) -> Result<Instance> {
        each!(self, d => d.start(id).await)
    }

    /// Returns when the instance is gone; that it never was is as good.
    pub async fn delete(&self, id: &str) -> Result<()> {
        each!(self, d => d.delete(id).await)
    }

    /// As [`Cloud::delete`], for many at once; `gone` hears the id of each that is gone.
    pub async fn delete_all(&self, ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Vec<Result<()>> {
        each!(self, d => d.delete_all(ids, gone).await)
    }

    /// Leaves the instance's other labels as they are, which others may be about to change.
    pub async fn add_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        match self {
            Cloud::Local(d) => {
                let mut all = d.instance(id).await?.labels;
                all.extend(labels);
                d.set_labels(id, all).await
            }
            Cloud::OpenStack(d) => d.add_labels(id, labels).await,
        }
    }

    /// Replaces all labels.
    pub async fn set_labels(&self, id: &str, labels: Labels) -> Result<Instance> {
        each!(self, d => d.set_labels(id, labels).await)
    }

    pub async fn console_log(&self, id: &str, lines: usize) -> Result<String> {
        each!(self, d => d.console_log(id, lines).await)
    }

    pub async fn images(&self) -> Result<Vec<Image>> {
        each!(self, d => d.images().await)
    }

    pub async fn image(&self, id: &str) -> Result<Image> {
        each!(self, d => d.image(id).await)
    }

    /// By name or id; the newest of a name.
    pub async fn find_image(&self, name: &str) -> Result<Image> {
        each!(self, d => d.find_image(name).await)
    }

    /// From the root disk of a stopped instance.
    pub async fn create_image(&self, instance: &str, new: NewImage) -> Result<Image> {
        each!(self, d => d.create_image(instance, new).await)
    }

    /// Deletes what an image build of the cluster that was cut off has left half made. For before its instance is deleted.
    pub async fn clear_build(&self, cluster: &str) -> Result<()> {
        match self {
            // Images are made in one go.
            Cloud::Local(_) => Ok(()),
            Cloud::OpenStack(d) => d.clear_build(cluster).await,
        }
    }

    /// From a file with a disk in it, qcow2 or raw, under a name that is found again by [`Cloud::find_image`].
    pub async fn upload_image(&self, new: NewImage, file: &Path) -> Result<Image> {
        each!(self, d => d.upload_image(new, file).await)
    }

    /// Also of a source image. What was made from the image goes on: it holds on to the parts it uses.
    pub async fn delete_image(&self, id: &str) -> Result<()> {
        each!(self, d => d.delete_image(id).await)
    }

    /// The plain image of a Debian suite, found or made. `progress` hears of the steps.
    pub async fn source_image(&self, suite: &str, progress: &(dyn Fn(&str) + Sync)) -> Result<Image> {
        each!(self, d => d.source_image(suite, progress).await)
    }

    pub async fn volumes(&self, cluster: &str) -> Result<Vec<Volume>> {
        each!(self, d => d.volumes(cluster).await)
    }

    pub async fn volume_by_name(&self, name: &str) -> Result<Option<Volume>> {
        each!(self, d => d.volume_by_name(name).await)
    }

    pub async fn create_volume(&self, new: NewVolume) -> Result<Volume> {
        each!(self, d => d.create_volume(new).await)
    }

    pub async fn delete_volume(&self, id: &str) -> Result<()> {
        each!(self, d => d.delete_volume(id).await)
    }

    pub async fn networks(&self, cluster: &str) -> Result<Vec<Network>> {
        each!(self, d => d.networks(cluster).await)
    }

    /// One that exists, whoever made it: for a cluster to use, not to own.
    pub async fn network_by_name(&self, name: &str) -> Result<Option<Network>> {
        each!(self, d => d.network_by_name(name).await)
    }

    pub async fn create_network(&self, new: NewNetwork) -> Result<Network> {
        each!(self, d => d.create_network(new).await)
    }

    /// From now on, addresses that nobody asks for are taken from `range` alone. What was taken before stays.
    pub async fn set_automatic(&self, network: &str, range: AddressRange) -> Result<()> {
        each!(self, d => d.set_automatic(network, range).await)
    }

    /// Addresses of a network that are taken by what is not the cluster's, each with who has it.
    pub async fn foreign_addresses(&self, network: &str, cluster: &str) -> Result<BTreeMap<IpAddr, String>> {
        each!(self, d => d.foreign_addresses(network, cluster).await)
    }

    pub async fn delete_network(&self, id: &str) -> Result<()> {
        each!(self, d => d.delete_network(id).await)
    }

    pub async fn security_groups(&self, cluster: &str) -> Result<Vec<SecurityGroup>> {
        each!(self, d => d.security_groups(cluster).await)
    }

    pub async fn create_security_group(&self, new: NewSecurityGroup) -> Result<SecurityGroup> {
        each!(self, d => d.create_security_group(new).await)
    }

    pub async fn delete_security_group(&self, id: &str) -> Result<()> {
        each!(self, d => d.delete_security_group(id).await)
    }

    pub async fn flavors(&self) -> Result<Vec<Flavor>> {
        each!(self, d => d.flavors().await)
    }

    /// What the control node of a cluster needs to know to use a token that [`Cloud::grant`] made valid. `networks`:
    /// those the cluster has.
    pub async fn access(&self, cluster: &str, token: &str, networks: &[Network]) -> Result<Access> {
        match self {
            Cloud::Local(_) => {
                let url = networks.iter().find_map(|n| n.api_url.clone()).unwrap_or_default();
                Ok(Access::Local { url, token: token.to_string() })
            }
            Cloud::OpenStack(d) => Ok(Access::OpenStack(Box::new(d.access(cluster, token).await?))),
        }
    }

    /// Makes a token valid for what the control node of one cluster has to do, in place of any earlier one.
    pub async fn grant(&self, cluster: &str, token: &str) -> Result<()> {
        each!(self, d => d.grant(cluster, token).await)
    }

    pub async fn revoke(&self, cluster: &str) -> Result<()> {
        each!(self, d => d.revoke(cluster).await)
    }

    /// Deletes what belonged to the cluster's instances and is in no listing: key pairs, ports, addresses. For when they
    /// are all gone.
    pub async fn sweep(&self, cluster: &str) -> Result<()> {
        each!(self, d => d.sweep(cluster).await)
    }

    /// Ends what runs only to serve this cloud, if nothing is left to serve. `false`: something is left.
    pub async fn retire(&self) -> Result<bool> {
        each!(self, d => d.retire().await)
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
        let cluster = self.instance(first).await?.labels.get(label::CLUSTER).cloned();
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
        match self {
            Cloud::Local(_) => std::time::Duration::from_millis(50),
            Cloud::OpenStack(_) => std::time::Duration::from_secs(1),
        }
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

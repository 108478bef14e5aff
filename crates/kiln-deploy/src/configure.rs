//! Configures every node: installs the binary, applies the bundle, publishes the sealed bundles on the share; then waits
//! until Slurm has the compute nodes in service.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_cloud::{Cloud, Instance, InstanceStatus, Kind, Labels};
use kiln_image::Event;
use kiln_site::{Inventory, NodeKeys, Secrets, Site, site};
use kiln_slurm::parse_nodes;
use kiln_spec::{Role, Spec};
use kiln_ssh::{Host, Output, Ssh};
use kiln_wire::{ApplyReport, BackupList, Bundle, CloudReached, Format as _, labels};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::bundles::KeptImages;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::{bounded, node_of};
use crate::observe::Observed;
use crate::push::Push;
use crate::wait::boot_limit;

/// From an instance that the cloud calls active until its sshd answers, unless the file has machines that take longer.
/// Firmware, or a hypervisor that emulates, takes minutes.
pub(crate) const SSH_LIMIT: Duration = Duration::from_secs(600);
/// How often the cloud is asked whether a node that does not answer is still there.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The processor's own instructions where they can be had: nearly every node of every run has the binary already.
pub(crate) const DIGEST: &str = r#"openssl dgst -sha256 -r "$1" 2>/dev/null || sha256sum "$1""#;

/// What configuration did to the nodes.
#[derive(Debug, Serialize)]
pub struct Configured {
    pub nodes: BTreeMap<String, ApplyReport>,
    /// Nodes that the file no longer has, but that are still there. Slurm knows them until they are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<String>,
    /// The newest backup, where the cluster's state did not grow out of it but started empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_behind: Option<String>,
}

impl Configured {
    pub fn changed(&self) -> usize {
        self.nodes.values().filter(|report| report.changed() > 0).count()
    }
}

/// What configuration is made of.
struct Inputs {
    ssh: Ssh,
    keys: BTreeMap<String, NodeKeys>,
    kiln: Vec<u8>,
    kiln_digest: String,
    inventory: Inventory,
    secrets: Secrets,
}

/// What a maintenance upgrade has put aside of Slurm's data, and not put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aside {
    Refused,
    Known,
}

/// What every step of one configuration needs.
struct Task<'a> {
    site: &'a Site<'a>,
    inputs: &'a Inputs,
    observed: &'a Observed,
    /// The resource before which to stop.
    before: Option<&'a str>,
    dry_run: bool,
}

impl Deployment<'_> {
    pub async fn configure(&self, dry_run: bool) -> Result<Configured> {
        self.configure_if(dry_run, Aside::Refused).await
    }

    /// Whatever a maintenance upgrade has put aside.
    pub(crate) async fn configure_in_upgrade(&self) -> Result<Configured> {
        self.configure_if(false, Aside::Known).await
    }

    async fn configure_if(&self, dry_run: bool, aside: Aside) -> Result<Configured> {
        self.secrets.ensure()?;
        let mut observed = self.observe().await?;
        self.check_owner(&observed)?;
        self.check_no_open_upgrade(&observed)?;
        self.check_awake(&observed)?;
        self.complete(&mut observed).await?;
        let leaving = self.leaving(&observed).await;
        let cluster = self.with_spec(&leaving.spec);
        cluster.configure_with(self.spec, leaving.nodes, &observed, dry_run, aside).await
    }

    /// The control node alone, or the beginning of its bundle: all resources before one. With `kept`, compute nodes keep the
    /// images that they had.
    pub(crate) async fn configure_control(
        &self,
        before: Option<&str>,
        kept: Option<&KeptImages>,
    ) -> Result<()> {
        let mut observed = self.observe().await?;
        self.complete(&mut observed).await?;
        let leaving = self.leaving(&observed).await;
        let whole = self.with_spec(&leaving.spec);
        let inputs = whole.inputs(&observed, kept).await?;
        let site = site(whole.spec, &inputs.inventory, &inputs.secrets);
        let task = Task { site: &site, inputs: &inputs, observed: &observed, before, dry_run: false };
        self.grant().await?;
        let control = whole.hosts(&observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        whole.configure_node(&task, control).await.map(drop)
    }

    async fn inputs(&self, observed: &Observed, kept: Option<&KeptImages>) -> Result<Inputs> {
        let ring = self.keys()?;
        let names: Vec<&str> = self.spec.nodes().map(|n| n.name).collect();
        let keys =
            names.iter().map(|n| Ok((n.to_string(), ring.node(n)?))).collect::<Result<BTreeMap<_, _>>>()?;
        let kiln = self.kiln_bytes()?;
        let kiln_digest = hex::encode(Sha256::digest(&kiln));
        let (mut inventory, secrets) = self.site_inputs(observed, &keys, &kiln_digest, kept).await?;
        let ssh = self.ssh()?.patient();
        self.ask_memory(&ssh, observed, &mut inventory).await?;
        self.keep_cores(&ssh, observed, &mut inventory).await?;
        Ok(Inputs { ssh, keys, kiln, kiln_digest, inventory, secrets })
    }

    /// Of the file and the nodes that are leaving. `file`: without them.
    async fn configure_with(
        &self,
        file: &Spec,
        leaving: Vec<String>,
        observed: &Observed,
        dry_run: bool,
        aside: Aside,
    ) -> Result<Configured> {
        let leaves = |node: &str| leaving.iter().any(|name| name == node);
        let mut not_running = self.not_running(observed)?;
        not_running.retain(|(node, _)| !leaves(node));
        let inputs = self.inputs(observed, None).await?;
        let looked = match aside {
            Aside::Refused => self.check_nothing_aside(observed).await?,
            Aside::Known => true,
        };
        self.check_accounts(&self.on_control(observed)?).await?;
        let site = site(self.spec, &inputs.inventory, &inputs.secrets);
        let (ssh, task) =
            (&inputs.ssh, Task { site: &site, inputs: &inputs, observed, before: None, dry_run });
        if !dry_run {
            self.grant().await?;
        }
        let hosts = self.hosts(observed, self.present(observed))?;
        let results = self.configure_all(&task, &hosts).await;
        let mut configured =
            Configured { nodes: BTreeMap::new(), leaving: leaving.clone(), left_behind: None };
        let (mut failures, mut passed_over) = (Vec::new(), false);
        let all = results.len() + not_running.len();
        for (host, result) in hosts.iter().zip(results) {
            match result {
                Ok(report) => _ = configured.nodes.insert(host.name.clone(), report),
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) if leaves(&host.name) => {
                    (self.progress)(Event::failed(
                        &host.name,
                        format!("leaves the cluster, and was not configured: {}", error.chain()),
                    ));
                }
                Err(error) if is_gone(&error) || self.has_left(host).await => {
                    let seen = observed.nodes().get(host.name.as_str()).map(|instance| instance.id.as_str());
                    if let Some(error) = still_there(&self.cloud, &host.name, seen).await {
                        (self.progress)(Event::failed(&host.name, "not configured"));
                        failures.push(format!("  {}", error.chain()));
                        continue;
                    }
                    // It gets its bundle when it boots again.
                    passed_over = true;
                    (self.progress)(Event::done(&host.name, "powered down in the meantime"));
                }
                Err(error) => {
                    (self.progress)(Event::failed(&host.name, "not configured"));
                    failures.push(format!("  {}", error.chain()));
                }
            }
        }
        let mut reached = Ok(());
        if failures.is_empty() && !dry_run {
            let unasked = self.return_to_service(file, observed).await?;
            let staying: Vec<Host> = hosts.iter().filter(|host| !leaves(&host.name)).cloned().collect();
            let in_service;
            (in_service, reached) =
                tokio::join!(self.wait_for_slurm(ssh, &staying), self.cloud_from_control(observed));
            in_service?;
            // slurmctld was about to start: it answers by now.
            if unasked.is_some()
                && let Some(why) = self.return_to_service(file, observed).await?
            {
                return Err(Error::NotReady(format!(
                    "Slurm cannot be asked which nodes to put back into service: {why}"
                )));
            }
        }
        for (node, status) in not_running {
            (self.progress)(Event::failed(&node, format!("skipped: it is {status}")));
            failures.push(format!("  {}", Error::NotActive { node, status }));
        }
        if !failures.is_empty() {
            return Err(Error::Operations {
                failed: failures.len(),
                all: Some(all),
                details: failures.join("\n"),
                hint: None,
            });
        }
        if !dry_run {
            // The volume of a control node that was rebuilt is mounted only now.
            if !looked {
                self.check_nothing_aside(observed).await?;
            }
            configured.left_behind = left_behind(ssh, &hosts).await;
            // Every node has the new secrets by now, unless the cloud's list was wrong about one.
            if !passed_over {
                self.secrets.forget_previous()?;
            }
        }
        reached.map(|()| configured)
    }

    /// What reaches the cloud from here may not do so from there.
    async fn cloud_from_control(&self, observed: &Observed) -> Result<()> {
        match self.control(observed)?.patient().ask::<CloudReached>(&["reach"], b"").await {
            Err(Error::Fleet(problem)) => {
                Err(Error::CloudFromControl { control: self.spec.control.node.clone(), problem })
            }
            answer => answer.map(drop),
        }
    }

    /// The control node comes first, because slurmds fetch the new configuration from it when they restart. If it cannot be
    /// configured, the other nodes are left as they are.
    async fn configure_all(&self, task: &Task<'_>, hosts: &[Host]) -> Vec<Result<ApplyReport>> {
        let Some((control, others)) = hosts.split_first() else { return Vec::new() };
        let mut results = vec![self.configure_node(task, control.clone()).await];
        if results[0].is_ok() {
            let others = others.to_vec();
            results
                .extend(bounded(others, self.spec.concurrency, |host| self.configure_node(task, host)).await);
        }
        results
    }

    /// All nodes but those of elastic groups that Slurm has powered down, and those that are off.
    fn present<'o>(&'o self, observed: &'o Observed) -> impl Iterator<Item = &'o str> {
        let instances = observed.nodes();
        self.spec.nodes().map(|node| (node.name, node.elastic)).filter_map(move |(name, elastic)| {
            let there = match instances.get(name) {
                Some(instance) if elastic => instance.status == InstanceStatus::Active,
                Some(instance) => is_up(instance),
                None => !elastic,
            };
            there.then_some(name)
        })
    }

    /// A node of an elastic group may be powered down at any time.
    async fn has_left(&self, host: &Host) -> bool {
        if !self.spec.node(&host.name).is_some_and(|node| node.elastic) {
            return false;
        }
        let Ok(instances) = self.cloud.instances(&self.spec.name).await else { return false };
        !instances.iter().any(|i| node_of(i) == host.name && !has_gone(i))
    }

    async fn until_left(&self, host: &Host) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.has_left(host).await {
                return;
            }
        }
    }

    /// Asks a node once it answers over SSH: it may still be booting. One that is powered down meanwhile never answers.
    pub(crate) async fn ask_when_up(&self, ssh: &Ssh, host: &Host, ask: &[&str]) -> Result<Output> {
        tokio::select! {
            answer = ssh.wait_output(host, ask, boot_limit(self.spec, SSH_LIMIT)) => Ok(answer?),
            () = self.until_left(host) => {
                Err(Error::NotActive { node: host.name.clone(), status: "powered down".into() })
            }
        }
    }

    /// Fixed nodes that are off or broken, with their state. They are not waited for, and the others are configured without
    /// them. Without the control node nothing can be configured.
    fn not_running(&self, observed: &Observed) -> Result<Vec<(String, String)>> {
        let instances = observed.nodes();
        let fixed = self.spec.nodes().filter(|node| !node.elastic);
        let not_running = fixed.filter_map(|node| instances.get(node.name).copied()).filter(|i| !is_up(i));
        let not_running: Vec<(String, String)> =
            not_running.map(|i| (node_of(i).to_string(), i.status.word().to_string())).collect();
        match not_running.iter().find(|(node, _)| *node == self.spec.control.node) {
            Some((node, status)) => Err(Error::NotActive { node: node.clone(), status: status.clone() }),
            None => Ok(not_running),
        }
    }

    /// On the volume of the state, for a control node that has to be created again.
    async fn note_release(&self, task: &Task<'_>) -> Result<()> {
        let Some(volume) = task.observed.state_volume(self.spec) else { return Ok(()) };
        let release = task.inputs.inventory.release.to_string();
        if volume.labels.get(labels::SLURM) == Some(&release) {
            return Ok(());
        }
        let label = Labels::from([(labels::SLURM.to_string(), release)]);
        Ok(self.cloud.label(Kind::Volume, &volume.id, label).await?)
    }

    async fn configure_node(&self, task: &Task<'_>, host: Host) -> Result<ApplyReport> {
        self.check_stop()?;
        let inputs = task.inputs;
        let keys = inputs.keys.get(&host.name).ok_or_else(|| Error::UnknownNode(host.name.clone()))?;
        let bundle =
            task.site.bundle(&host.name, keys).ok_or_else(|| Error::UnknownNode(host.name.clone()))?;
        self.install_kiln(&inputs.ssh, &host, &inputs.kiln, &inputs.kiln_digest, task.dry_run).await?;
        (self.progress)(Event::working(&host.name, "configuring"));
        if bundle.role == Role::Control.as_str() && task.before.is_none() && !task.dry_run {
            self.note_release(task).await?;
        }
        let push =
            Push { ssh: &inputs.ssh, progress: self.progress, dry_run: task.dry_run, before: task.before };
        let report = push.apply(&host, &bundle).await?;
        if task.before.is_some() {
            return Ok(report);
        }
        if bundle.role == Role::Control.as_str() && !task.dry_run {
            self.publish(task, &host).await?;
        }
        let text = match report.changed() {
            0 => "unchanged".to_string(),
            n if task.dry_run => format!("{n} would change"),
            n => format!("configured, {n} changed"),
        };
        (self.progress)(Event::done(&host.name, text));
        Ok(report)
    }

    /// Nodes run the same binary as the deploy host, whatever their image brought.
    pub(crate) async fn install_kiln(
        &self,
        ssh: &Ssh,
        host: &Host,
        kiln: &[u8],
        digest: &str,
        dry_run: bool,
    ) -> Result<()> {
        let ask = ["sh", "-c", DIGEST, "sh", kiln_wire::paths::KILN];
        let sum = self.ask_when_up(ssh, host, &ask).await?;
        if !dry_run && !sum.stdout.starts_with(digest) {
            (self.progress)(Event::working(&host.name, "copying kiln"));
            let install = ["sh", "-c", kiln_image::INSTALL_KILN, "sh", digest];
            ssh.run(host, &install, kiln).await?;
        }
        Ok(())
    }

    /// Puts the sealed bundles of compute nodes on the share, those that changed.
    async fn publish(&self, task: &Task<'_>, control: &Host) -> Result<()> {
        let listed = task.inputs.ssh.run(control, &["kiln", "node", "published"], b"").await?;
        let there: BTreeMap<String, String> = serde_json::from_str(&listed).unwrap_or_default();
        let mut publication = kiln_wire::Publication::default();
        let (sender, _) = self.keys()?.sender()?;
        for node in self.spec.compute.iter().flat_map(|g| &g.nodes) {
            let Some(keys) = task.inputs.keys.get(node) else { continue };
            let Some(bundle) = task.site.bundle(node, keys) else { continue };
            // The name of the content: which bundle, sealed to whom and by whom.
            let digest = hex::encode(Sha256::digest(format!(
                "{} {} {}",
                bundle.digest(),
                keys.seal_recipient,
                keys.sender_key
            )));
            if there.get(node) != Some(&digest) {
                let failed =
                    |e: kiln_wire::SealError| Error::Seal { node: node.clone(), message: e.to_string() };
                // The node runs no other program of the share.
                let named = Bundle { kiln: Some(task.inputs.kiln_digest.clone()), ..bundle.clone() };
                let sealed = kiln_wire::seal(&named, &keys.seal_recipient, &sender).map_err(failed)?;
                publication.sealed.insert(node.clone(), STANDARD.encode(sealed));
            }
            publication.bundles.insert(node.clone(), bundle.digest());
            publication.digests.insert(node.clone(), digest);
        }
        if there == publication.digests {
            return Ok(());
        }
        let json = publication.to_json().map_err(|e| Error::NotReady(e.to_string()))?;
        task.inputs.ssh.run(control, &["kiln", "node", "publish"], &json).await?;
        Ok(())
    }
}

fn has_gone(instance: &Instance) -> bool {
    matches!(instance.status, InstanceStatus::Deleting | InstanceStatus::Stopped)
}

/// Why a node that the cloud's list lacks is not taken for one that was powered down: a list may be incomplete. `seen`: the
/// id that its instance had.
async fn still_there(cloud: &Cloud, node: &str, seen: Option<&str>) -> Option<Error> {
    match cloud.instance(seen?).await {
        Ok(instance) if has_gone(&instance) => None,
        Ok(instance) => {
            let status = instance.status.word();
            Some(Error::NotReady(format!("{node} is {status}, though the cloud's list lacks it")))
        }
        Err(error) if error.is_not_found() => None,
        Err(source) => Some(Error::Unlisted { id: seen?.to_string(), source }),
    }
}

/// It was powered down while its answer was awaited.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::NotActive { .. })
}

/// Whether an instance runs or is about to.
fn is_up(instance: &Instance) -> bool {
    use InstanceStatus::{Active, Building, Rebuilding};
    matches!(instance.status, Active | Building | Rebuilding)
}

/// The backup that a cluster without its past could go back to. A control node that does not tell is examined by
/// `status` and `doctor`.
async fn left_behind(ssh: &Ssh, hosts: &[Host]) -> Option<String> {
    let argv = ["kiln", "--json", "node", "backup", "list"];
    let output = ssh.output(hosts.first()?, &argv, b"").await.ok()?;
    BackupList::from_json(output.stdout.as_bytes()).ok()?.left_behind
}

/// What Slurm says of each node, by name.
pub(crate) async fn slurm_nodes(ssh: &Ssh, control: &Host) -> Result<BTreeMap<String, kiln_slurm::Node>> {
    let text = ssh.run(control, &["scontrol", "show", "node", "--oneliner"], b"").await?;
    Ok(parse_nodes(&text))
}

#[cfg(test)]
mod tests {
    use kiln_cloud::memory::{Fault, Memory};
    use kiln_cloud::testing;

    use super::*;

    /// One that is passed over keeps its old secrets.
    #[tokio::test]
    async fn a_node_that_a_list_lacks_is_asked_for_before_it_is_passed_over() {
        let memory = Memory::new("configure");
        memory.put(testing::instance("e-0"));
        memory.put(Instance { status: InstanceStatus::Stopped, ..testing::instance("e-1") });
        memory.hide("e-0");
        let cloud = memory.cloud();
        let told =
            async |node: &str| still_there(&cloud, node, Some(node)).await.map(|error| error.to_string());
        let there = told("e-0").await.unwrap_or_default();
        assert!(there.contains("e-0") && there.contains("though the cloud's list lacks it"), "{there}");
        assert_eq!(told("e-1").await, None, "it is off");
        assert_eq!(told("e-2").await, None, "it is gone");
        memory.fail("show", Fault::always(kiln_cloud::Error::failed("the cell does not answer")));
        assert!(told("e-2").await.is_some(), "nobody can say");
    }
}

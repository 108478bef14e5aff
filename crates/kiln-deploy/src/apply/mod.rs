//! Carries out a plan, stage by stage, with bounded concurrency. It decides nothing and does not look at the cloud again:
//! values that the plan could not know are those that earlier stages have made. Every operation can be repeated, so a
//! run that was cut off is simply run again.

mod instances;
mod made;

use std::collections::BTreeMap;
use std::net::IpAddr;

use kiln_cloud::{Kind, Labels, NewExport, NewExports, NewNetwork, NewSecurityGroup, NewVolume};
use kiln_image::Event;
use kiln_site::services::CLOUD_TOKEN;
use kiln_wire::labels;

pub(crate) use made::Made;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::bounded;
use crate::owner::Unmarked;
use crate::plan::{Action, Plan, PlannedExport, Removal, Resource, Stage, plan};
use crate::targets::targets;

impl Deployment<'_> {
    pub async fn plan(&self, removal: Removal) -> Result<Plan> {
        // Only here: a key pair, for one, belongs to one person, and others may look at the cluster, too.
        self.cloud.check().await?;
        let mut observed = self.observe().await?;
        self.check_awake(&observed)?;
        self.complete(&mut observed).await?;
        self.ask_release(&mut observed).await;
        self.ask_accounts(&mut observed).await;
        self.ask_about_removals(&mut observed).await;
        let id = self.secrets.cluster_id()?;
        let mut plan = plan(self.spec, id.as_deref(), &observed, &targets(self.spec, &observed), removal)?;
        // `apply` refuses to begin without it.
        if let Err(missing) = self.secrets.check_given() {
            plan.notes.push(format!("{missing}; {}", missing.hint().unwrap_or_default()));
        }
        plan.accounts = self.account_differences(&observed).await;
        Ok(plan)
    }

    /// Carries out `plan`, all but its drains, which come before it: see [`Deployment::drain`]. Its images must exist already.
    pub async fn apply(&self, plan: &Plan) -> Result<()> {
        self.secrets.ensure()?;
        plan.check_images()?;
        self.mark_lost(plan).await?;
        let mut made = Made::default();
        for stage in Stage::ALL {
            if stage == Stage::Control {
                // Missing rights are reported before servers are made. The secret reaches the control node with `configure`.
                self.grant().await?;
                self.ensure_rights().await?;
            }
            let actions: Vec<&Action> = plan.actions.iter().filter(|a| a.stage() == stage).collect();
            if actions.is_empty() {
                continue;
            }
            self.check_stop()?;
            let perform = |action| self.perform(action, &made);
            for new in collect(bounded(actions, self.spec.concurrency, perform).await)? {
                made.extend(new);
            }
        }
        self.wait_active().await
    }

    /// Lets the control node do its part, with the rights that this Kiln gives it.
    pub async fn grant(&self) -> Result<()> {
        self.secrets.ensure()?;
        let token = self.secrets.read(&CLOUD_TOKEN)?;
        Ok(self.cloud.grant(&self.spec.name, token.expose_secret().trim()).await?)
    }

    /// `made`: by earlier stages. Returns what this action has made.
    async fn perform(&self, action: &Action, made: &Made) -> Result<Made> {
        let done = |item: String, text: &str| (self.progress)(Event::done(item, text));
        match action {
            Action::BuildImage { image } => return Err(Error::ImageNotBuilt(image.clone())),
            Action::CreateNetwork { name, cidr, lacks, automatic } => {
                let (labels, automatic) = (self.labels()?, automatic.clone());
                let new = NewNetwork { name: name.clone(), cidr: *cidr, labels, automatic };
                let network = self.cloud.create_network(new).await?;
                done(format!("network {name}"), if lacks.is_some() { "completed" } else { "created" });
                return Ok(Made::network(network));
            }
            Action::KeepAddresses { network, id, automatic } => {
                self.cloud.set_automatic(id, automatic.clone()).await?;
                done(format!("network {network}"), "addresses reserved");
            }
            Action::CreateSecurityGroup { name, unfinished, rules, closed, .. } => {
                let (labels, rules) = (self.labels()?, made.rules(rules)?);
                let new = NewSecurityGroup { name: name.clone(), labels, rules, without: closed.clone() };
                let group = self.cloud.create_security_group(new).await?;
                done(format!("security group {name}"), if *unfinished { "changed" } else { "created" });
                return Ok(Made::one(Resource::SecurityGroup(name.clone()), group.id));
            }
            Action::CreateVolume { name, size_gib, .. } => {
                let mut labels = self.labels()?;
                labels.insert(labels::USED.to_string(), labels::USED_NO.to_string());
                let new = NewVolume { name: name.clone(), size_gib: *size_gib, labels };
                let volume = self.cloud.create_volume(new).await?;
                done(format!("volume {name}"), "created");
                return Ok(Made::one(Resource::Volume(name.clone()), volume.id));
            }
            Action::CreateFileSystem { name, .. } => {
                let mut labels = self.labels()?;
                labels.insert(labels::USED.to_string(), labels::USED_NO.to_string());
                let made = self.cloud.create_file_system(name, labels).await?;
                done(format!("file system {name}"), "created");
                return Ok(Made::one(Resource::Volume(name.clone()), made.id));
            }
            Action::ExportFileSystems { network, security_groups, subnet, control, file_systems } => {
                let export = |planned: &PlannedExport| {
                    let (name, read_only) = (planned.name.clone(), planned.read_only);
                    Ok(NewExport { id: made.id(&planned.id)?, name, read_only })
                };
                let new = NewExports {
                    name: self.spec.name.clone(),
                    labels: self.labels()?,
                    network: made.id(network)?,
                    security_groups: made.ids(security_groups)?,
                    root: made.address(control)?,
                    subnet: made.subnet(subnet)?,
                    file_systems: file_systems.iter().map(export).collect::<Result<_>>()?,
                };
                return self.export(new).await;
            }
            Action::GrowVolume { name, id, size_gib, .. } => {
                self.cloud.grow_volume(id, *size_gib).await?;
                done(format!("volume {name}"), "extended");
            }
            Action::Adopt { resources } => {
                self.adopt(resources).await?;
                done(format!("cluster {}", self.spec.name), "resources marked");
            }
            Action::NoteControl { volume, address } => self.note_control(volume, *address).await?,
            Action::CreateInstances { instances, .. } => return self.create(&instances.0, made).await,
            Action::RebuildInstances { instances, .. } => self.rebuild(&instances.0, made).await?,
            Action::UpgradeControl(upgrade) => Box::pin(self.upgrade_control(upgrade, made)).await?,
            Action::LeaveToSlurm { group, image_id, instances, .. } => {
                self.record_target(&instances.0, &made.id(image_id)?).await?;
                done(group.clone(), "image change left to Slurm");
            }
            Action::StartInstances { instances, .. } => self.start(&instances.0).await?,
            // Done before, or waiting for jobs.
            Action::DrainInstances { .. } | Action::PowerDownInstances { .. } => {}
            Action::DeleteInstances { instances, .. } => self.delete(&instances.0).await?,
        }
        Ok(Made::default())
    }

    async fn export(&self, new: NewExports) -> Result<Made> {
        let names: BTreeMap<String, String> =
            new.file_systems.iter().map(|export| (export.id.clone(), export.name.clone())).collect();
        let mut made = Made::default();
        for (id, at) in self.cloud.export(new).await? {
            let Some(name) = names.get(&id) else { continue };
            (self.progress)(Event::done(format!("file system {name}"), "exported"));
            made.add_export(name.clone(), at);
        }
        Ok(made)
    }

    fn labels(&self) -> Result<Labels> {
        let cluster = (labels::CLUSTER.to_string(), self.spec.name.clone());
        Ok(self.id_label()?.into_iter().chain([cluster]).collect())
    }

    /// The label that tells clusters of one name apart.
    pub(crate) fn id_label(&self) -> Result<Labels> {
        let id = self.secrets.cluster_id()?;
        Ok(id.into_iter().map(|id| (labels::ID.to_string(), id)).collect())
    }

    async fn adopt(&self, resources: &[Unmarked]) -> Result<()> {
        let id = self.id_label()?;
        let adopt = |resource: &Unmarked| {
            let (resource, id) = (resource.clone(), id.clone());
            async move { Ok(self.cloud.label(resource.kind, &resource.id, id).await?) }
        };
        collect(bounded(resources.iter().collect(), self.spec.concurrency, adopt).await)?;
        Ok(())
    }

    /// On the volume of the share, which outlives the control node.
    pub(super) async fn note_control(&self, volume: &str, address: IpAddr) -> Result<()> {
        let label = Labels::from([(labels::CONTROL_ADDRESS.to_string(), address.to_string())]);
        Ok(self.cloud.label(Kind::Volume, volume, label).await?)
    }
}

/// One error out of many results; being asked to stop goes before the rest.
pub(crate) fn collect<T>(results: Vec<Result<T>>) -> Result<Vec<T>> {
    let all = results.len();
    let mut values = Vec::with_capacity(all);
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(error) => errors.push(error),
        }
    }
    if let Some(at) = errors.iter().position(|e| matches!(e, Error::Stopped)) {
        return Err(errors.swap_remove(at));
    }
    match errors.len() {
        0 => Ok(values),
        1 if all == 1 => Err(errors.swap_remove(0)),
        _ => {
            let hint = errors.iter().find_map(Error::hint);
            let (mut failed, mut all, mut lines) = (0, Some(all), Vec::new());
            for error in errors {
                // Those of a group of nodes are told with the others, not as a list in a list.
                if let Error::Operations { failed: of_group, details, .. } = error {
                    (failed, all) = (failed + of_group, None);
                    lines.push(details);
                } else {
                    failed += 1;
                    lines.push(format!("  {}", error.chain()));
                }
            }
            Err(Error::Operations { failed, all, details: lines.join("\n"), hint })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_groups_are_one_list() {
        let broken = |node: &str| Err(Error::NoInstance(node.into()));
        let one = collect(vec![broken("a"), Ok(()), Ok(())]).unwrap_err();
        assert_eq!(one.to_string(), "1 of 3 operations failed:\n  a has no instance");
        let group = collect(vec![broken("a"), broken("b"), Ok(())]).map(drop);
        let all = collect(vec![group, broken("c"), Ok(())]).unwrap_err();
        let lines = "  a has no instance\n  b has no instance\n  c has no instance";
        assert_eq!(all.to_string(), format!("3 operations failed:\n{lines}"));
    }
}

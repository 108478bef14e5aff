//! Creates, rebuilds, starts and deletes the instances that a plan names.

use std::time::Duration;

use kiln_cloud::{Labels, NewInstance, Rebuild};
use kiln_distro::Family;
use kiln_image::Event;
use kiln_site::services;
use kiln_spec::Role;
use kiln_ssh::Host;
use kiln_wire::labels;

use super::{Made, collect};
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::bounded;
use crate::plan::{ExistingNode, NewNode, RebuiltNode};

/// How long services on a node may take to end before the node is rebuilt.
const STOP_LIMIT: Duration = Duration::from_secs(60);

impl Deployment<'_> {
    /// In bulk, as many at a time as operations may run at once.
    pub(super) async fn create(&self, nodes: &[NewNode], made: &Made) -> Result<Made> {
        let mut created = Made::default();
        let mut results = Vec::new();
        for batch in nodes.chunks(self.spec.concurrency.max(1)) {
            self.check_stop()?;
            let new = batch.iter().map(|node| self.new_instance(node, made)).collect::<Result<Vec<_>>>()?;
            for (new, result) in batch.iter().zip(self.cloud.create(new).await) {
                match result {
                    Ok(instance) => {
                        created.add_instance(&instance);
                        if let (Some(share), Some(address)) = (&new.keeps_address, instance.address) {
                            self.note_control(&made.id(share)?, address).await?;
                        }
                        (self.progress)(Event::working(&new.node, "booting"));
                        results.push(Ok(()));
                    }
                    Err(error) => {
                        (self.progress)(Event::failed(&new.node, error.chain()));
                        results.push(Err(Error::from(error)));
                    }
                }
            }
        }
        collect(results)?;
        Ok(created)
    }

    fn new_instance(&self, new: &NewNode, made: &Made) -> Result<NewInstance> {
        let share = new.share.as_ref().map(|share| made.share(share)).transpose()?;
        Ok(NewInstance {
            name: new.node.clone(),
            image: made.id(&new.image_id)?,
            flavor: new.flavor.clone(),
            zone: new.zone.clone(),
            network: made.id(&new.network)?,
            address: new.address,
            public: new.public,
            security_groups: made.ids(&new.security_groups)?,
            user_data: self.user_data(&new.node, share)?,
            ssh_key: self.ssh_public_key()?,
            labels: self.with_id(made.labels(&new.labels)?)?,
            volumes: made.attachments(&new.volumes)?,
            disk_gib: None,
            request: None,
        })
    }

    fn with_id(&self, mut labels: Labels) -> Result<Labels> {
        labels.extend(self.id_label()?);
        Ok(labels)
    }

    pub(super) async fn rebuild(&self, nodes: &[RebuiltNode], made: &Made) -> Result<()> {
        let rebuild = |new: &RebuiltNode| self.rebuild_one(new.clone(), made);
        collect(bounded(nodes.iter().collect(), self.spec.concurrency, rebuild).await)?;
        Ok(())
    }

    async fn rebuild_one(&self, new: RebuiltNode, made: &Made) -> Result<()> {
        self.check_stop()?;
        if let Some(control) = &new.stop_daemons {
            self.stop_daemons(control).await;
        }
        (self.progress)(Event::working(&new.node, "rebuilding"));
        let share = new.share.as_ref().map(|share| made.share(share)).transpose()?;
        let rebuild = Rebuild {
            image: made.id(&new.image_id)?,
            user_data: self.user_data(&new.node, share)?,
            ssh_key: self.ssh_public_key()?,
            labels: self.with_id(made.labels(&new.labels)?)?,
        };
        self.cloud.rebuild(&new.id, rebuild).await?;
        Ok(())
    }

    /// Lets slurmctld and the database write down their state before the control node's disk is replaced. Errors do not
    /// count: a control node that is already broken must still be replaceable.
    async fn stop_daemons(&self, control: &Host) {
        (self.progress)(Event::working(&control.name, "stopping Slurm's daemons"));
        let Ok(ssh) = self.ssh() else { return };
        let units = self.units_to_stop();
        let argv: Vec<&str> = ["systemctl", "stop"].into_iter().chain(units).collect();
        let _ = tokio::time::timeout(STOP_LIMIT, ssh.output(control, &argv, b"")).await;
    }

    pub(super) async fn record_target(&self, nodes: &[ExistingNode], image_id: &str) -> Result<()> {
        let target = Labels::from([(labels::TARGET_IMAGE.to_string(), image_id.to_string())]);
        let record = |id: String| {
            let target = target.clone();
            async move { self.cloud.add_labels(&id, target).await.map(drop) }
        };
        self.each(nodes, record, "target recorded").await
    }

    /// Of the control node, in the order in which they are stopped.
    pub(crate) fn units_to_stop(&self) -> Vec<&'static str> {
        let family = Family::of_image(self.spec, &self.spec.control.image);
        services::units_to_stop(self.spec, Role::Control, family)
    }

    pub(crate) async fn start(&self, nodes: &[ExistingNode]) -> Result<()> {
        self.each(nodes, |id| async move { self.cloud.start(&id).await.map(drop) }, "started").await
    }

    pub(crate) async fn stop_instances(&self, nodes: &[ExistingNode]) -> Result<()> {
        self.each(nodes, |id| async move { self.cloud.stop(&id, false).await.map(drop) }, "stopped").await
    }

    pub(crate) async fn delete(&self, nodes: &[ExistingNode]) -> Result<()> {
        let ids: Vec<String> = nodes.iter().map(|node| node.id.clone()).collect();
        let gone = |id: &str| {
            let node = nodes.iter().find(|node| node.id == id).map_or(id, |node| node.node.as_str());
            (self.progress)(Event::done(node, "deleted"));
        };
        let results = self.cloud.delete_all(&ids, &gone).await;
        collect(results.into_iter().map(|result| result.map_err(Error::from)).collect())?;
        Ok(())
    }

    /// Runs one cloud operation for each of these instances.
    async fn each<F>(&self, nodes: &[ExistingNode], operation: impl Fn(String) -> F, text: &str) -> Result<()>
    where
        F: Future<Output = kiln_cloud::Result<()>>,
    {
        let operation = &operation;
        let run = |node: ExistingNode| async move {
            self.check_stop()?;
            operation(node.id).await?;
            (self.progress)(Event::done(node.node, text));
            Ok(())
        };
        collect(bounded(nodes.to_vec(), self.spec.concurrency, run).await)?;
        Ok(())
    }
}

//! Turning an instance on and off, building it, and taking it away. Every function here is safe to repeat.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::access::Caller;
use super::records::{InstanceRecord, Phase};
use super::{Daemon, lock, metadata, networks, store};
use crate::local::plan::{self, Bind, BootPlan, Port};
use crate::local::{cgroup, executable, names, port, sys};
use crate::{Error, Result};
use kiln_wire::labels;

/// How long the inside may take to shut down before it is cut off.
const GRACE: Duration = Duration::from_secs(30);
/// How long the inside may take to show its first sign of life.
const FIRST_SIGN: Duration = Duration::from_secs(60);

impl Daemon {
    /// Makes what was accepted real: a fresh root, booted. For a rebuild, whatever ran before is ended.
    pub fn build(&self, id: &str) {
        let only_one = self.instance_lock(id);
        let _only_one = lock(&only_one);
        let Ok(record) = self.world().instances.get(id).cloned() else {
            return;
        };
        if !matches!(record.phase, Phase::Building | Phase::Rebuilding) {
            return;
        }
        let started = Instant::now();
        let built = self.try_build(&record);
        let phase = match built {
            Ok(()) => Phase::Ready,
            Err(error) => Phase::Failed { reason: error.chain() },
        };
        tracing::info!(name = record.name, id, ?phase, took = ?started.elapsed(), "built");
        let settled = self.update(id, |current| {
            // A later rebuild or deletion has the word.
            if current.upper == record.upper && current.phase == record.phase {
                current.built = (phase == Phase::Ready).then(jiff::Timestamp::now);
                current.phase = phase;
            }
        });
        if let Err(error) = settled {
            tracing::error!(id, %error, "cannot record the end of a build");
        }
        self.collect_layers();
    }

    fn try_build(&self, record: &InstanceRecord) -> Result<()> {
        self.fault("build")?;
        self.fault(&format!("build {}", record.name))?;
        self.power_off(&record.id, false)?;
        store::remove_tree(&self.layer_dir(&record.upper))?;
        self.boot(record)
    }

    /// Starts the supervisor and waits for the inside's first sign of life.
    fn boot(&self, record: &InstanceRecord) -> Result<()> {
        let dir = self.instance_dir(&record.id);
        store::make_dir(&dir)?;
        self.make_upper(record)?;
        self.write_config_drive(record)?;
        let plan = self.boot_plan(record)?;
        if plan.hangs {
            tracing::warn!(name = record.name, "its boot hangs, as ordered");
        }
        store::write_json(&dir.join(plan::FILE), &plan)?;

        let keeper = plan.cgroup.join("supervisor");
        cgroup::create(&keeper)?;
        let log = dir.join("supervisor.log");
        let failed = |e: std::io::Error| Error::failed("cannot start the supervisor").because(e);
        let output = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&log)
            .map_err(failed)?;
        let mut command = Command::new(executable());
        command
            .arg0("kiln")
            .args(["local", "instance", "--dir"])
            .arg(&dir)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output);
        sys::own_session(&mut command);
        sys::in_cgroup(&mut command, cgroup::procs(&keeper)?);
        let mut child = command.spawn().map_err(failed)?;
        std::thread::spawn(move || child.wait());
        if plan.hangs { Ok(()) } else { await_first_sign(&plan.cgroup, &log) }
    }

    /// The directory of the layer the instance writes to.
    pub fn make_upper(&self, record: &InstanceRecord) -> Result<PathBuf> {
        let dir = self.layer_dir(&record.upper);
        store::make_dir(&dir)?;
        // It is the guest's `/`: its mode is seen inside.
        std::fs::set_permissions(&dir, Permissions::from_mode(0o755))
            .map_err(|e| Error::failed(format!("cannot use {}", dir.display())).because(e))?;
        Ok(dir)
    }

    fn boot_plan(&self, record: &InstanceRecord) -> Result<BootPlan> {
        let world = self.world();
        let network = world.networks.get(&record.network)?;
        let mut rules = Vec::new();
        for id in &record.security_groups {
            rules.extend(world.groups.get(id)?.rules.iter().cloned());
        }
        let mut binds = Vec::new();
        if metadata::elsewhere(network).is_none() {
            let config = self.instance_dir(&record.id).join("config");
            binds.push(Bind { from: config, to: "/mnt/config".into(), read_only: true });
        }
        for attachment in &record.volumes {
            let volume = world.volumes.get(&attachment.volume)?;
            binds.push(Bind {
                from: self.volume_dir(&volume.id).join("data"),
                to: format!("/mnt/volumes/{}", volume.name),
                read_only: attachment.read_only,
            });
        }
        // Packages that a build has downloaded are there for the next one. Nothing of it is in an image: it is mounted.
        if record.labels.get(labels::ROLE).is_some_and(|role| role == labels::BUILD_ROLE) {
            let packages = self.root.join("packages");
            store::make_dir(&packages)?;
            binds.push(Bind { from: packages, to: "/run/kiln-packages".into(), read_only: false });
        }
        let hangs = self.fault("boot").and_then(|()| self.fault(&format!("boot {}", record.name))).is_err();
        let owner = self.name_on_host();
        let (netns, link) = Port::names(&owner, &record.id);
        Ok(BootPlan {
            id: record.id.clone(),
            hostname: record.name.clone(),
            cgroup: self.instance_cgroup(&record.id),
            layers: record.layers.iter().map(|l| self.layer_dir(l)).collect(),
            upper: self.layer_dir(&record.upper),
            hangs,
            binds,
            port: Port {
                netns,
                link,
                owner,
                bridge: networks::bridge(&network.id),
                mac: names::mac(&record.id),
                address: record.address,
                prefix: network.cidr.prefix_len(),
                gateway: networks::gateway(network.cidr),
                rules,
            },
        })
    }

    /// Off, with nothing left running. `orderly` asks the inside to shut down first.
    fn power_off(&self, id: &str, orderly: bool) -> Result<()> {
        let group = self.instance_cgroup(id);
        if orderly {
            for boot in cgroup::children(&group) {
                // nspawn's own group; SIGTERM to it is the power button.
                for pid in cgroup::members(&boot.join("supervisor")) {
                    if let Some(pid) = Pid::from_raw(pid) {
                        let _ = kill_process(pid, Signal::TERM);
                    }
                }
            }
            if !cgroup::wait_empty(&group, GRACE) {
                tracing::warn!(id, "did not shut down in time");
            }
        }
        cgroup::destroy(&group)?;
        self.unplug(id);
        Ok(())
    }

    /// Takes an instance's cable and namespace away, if they are there.
    pub fn unplug(&self, id: &str) {
        // As they were named at its last boot, perhaps by an earlier program.
        let plan = std::fs::read(self.instance_dir(id).join(plan::FILE)).ok();
        let plan = plan.and_then(|text| serde_json::from_slice::<BootPlan>(&text).ok());
        let (netns, link) = plan
            .map_or_else(|| Port::names(&self.name_on_host(), id), |plan| (plan.port.netns, plan.port.link));
        port::unplug_named(&netns, &link);
    }

    pub fn stop(&self, caller: &Caller, id: &str, hard: bool) -> Result<InstanceRecord> {
        self.switch(caller, id, |record| self.power_off(&record.id, !hard))
    }

    pub fn start(&self, caller: &Caller, id: &str) -> Result<InstanceRecord> {
        self.switch(caller, id, |record| {
            if cgroup::populated(&self.instance_cgroup(&record.id)) {
                return Ok(());
            }
            self.power_off(&record.id, false)?;
            self.boot(record)
        })
    }

    pub fn reboot(&self, caller: &Caller, id: &str, hard: bool) -> Result<InstanceRecord> {
        self.switch(caller, id, |record| {
            self.power_off(&record.id, !hard)?;
            self.boot(record)
        })
    }

    /// Changes the power state of an instance that was built.
    fn switch(
        &self,
        caller: &Caller,
        id: &str,
        change: impl FnOnce(&InstanceRecord) -> Result<()>,
    ) -> Result<InstanceRecord> {
        self.record(caller, id)?;
        let only_one = self.instance_lock(id);
        let _only_one = lock(&only_one);
        let record = self.record(caller, id)?;
        match &record.phase {
            Phase::Ready => {}
            Phase::Failed { reason } => {
                return Err(Error::conflict(format!("instance {} is broken: {reason}", record.name)));
            }
            Phase::Building | Phase::Rebuilding | Phase::Deleting => {
                return Err(Error::conflict(format!("instance {} is being built or deleted", record.name)));
            }
        }
        change(&record)?;
        Ok(record)
    }

    /// Returns when nothing of it is left.
    pub fn delete(&self, caller: &Caller, id: &str) -> Result<()> {
        self.record(caller, id)?;
        self.update(id, |record| record.phase = Phase::Deleting)?;
        self.finish_delete(id)
    }

    pub fn finish_delete(&self, id: &str) -> Result<()> {
        let only_one = self.instance_lock(id);
        let _only_one = lock(&only_one);
        self.power_off(id, false)?;
        store::remove_tree(&self.instance_dir(id))?;
        self.world().instances.remove(id)?;
        lock(&self.locks).remove(id);
        self.drop_superseded();
        self.collect_layers();
        Ok(())
    }

    fn update(&self, id: &str, change: impl FnOnce(&mut InstanceRecord)) -> Result<()> {
        let mut world = self.world();
        let mut record = world.instances.get(id)?.clone();
        change(&mut record);
        world.instances.put(record)
    }
}

/// Waits until the inside's own first process is there, or the supervisor has given up.
fn await_first_sign(group: &Path, log: &Path) -> Result<()> {
    let end = Instant::now() + FIRST_SIGN;
    loop {
        if group.join("boot-0/payload/init.scope").exists() {
            return Ok(());
        }
        if !cgroup::populated(group) {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            let console = log.with_file_name("console.log");
            let console = std::fs::read_to_string(console).unwrap_or_default();
            let last = console.lines().last().unwrap_or_default();
            return Err(Error::failed(
                format!("the instance did not boot: {} {last}", said.trim()).trim_end().to_string(),
            ));
        }
        if Instant::now() >= end {
            return Err(Error::failed("the instance shows no sign of life"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

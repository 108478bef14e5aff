//! What Slurm allows, and who has what of a node.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{Bounds, Slurm};
use crate::error::{Error, Result};
use crate::rules::{self, SlurmRules};
use crate::sharing::{self, Devices, Sharing};

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(20), bytes: 4 << 20 };
/// So many jobs of a node are looked at.
const MOST_JOBS: usize = 128;
/// So many questions at a time.
const AT_ONCE: usize = 4;

impl Slurm {
    async fn tell(&self, program: &str, arguments: &[&str]) -> Result<String> {
        Ok(self.call_within(program, arguments, BOUNDS).await?.0)
    }

    /// Which cores, memory and devices of a node are which job's. `None`: Slurm does not know the node.
    ///
    /// Each job is asked for on its own: among the lines of several, the name of one could pass for another job.
    pub async fn sharing(&self, node: &str) -> Result<Option<Sharing>> {
        let Some(known) = self.node(node).await? else { return Ok(None) };
        let on = format!("--nodelist={node}");
        let states = "--states=RUNNING,COMPLETING,SUSPENDED,STOPPED,CONFIGURING";
        let arguments = ["--all", "--noheader", "--array", states, "--sort=i", "--format=%A", &on];
        let numbers = self.tell("squeue", &arguments).await?;
        let is_number = |line: &&str| !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit());
        let numbers: Vec<String> =
            numbers.lines().map(str::trim).filter(is_number).take(MOST_JOBS).map(String::from).collect();
        let shares = stream::iter(numbers).map(|number| async move {
            match self.tell("scontrol", &["--details", "--oneliner", "show", "job", &number]).await {
                Ok(text) => Ok(sharing::share(&text, &number, node)),
                // It has ended meanwhile.
                Err(Error::Refused { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let shares: Vec<_> = shares.buffered(AT_ONCE).try_collect().await?;
        Ok(Some(Sharing {
            cpus: known.cores.map_or(0, |cores| cores.iter().product()),
            memory_mib: known.real_memory.unwrap_or(0),
            devices: known.gres.as_deref().map(Devices::parse).unwrap_or_default(),
            shares: shares.into_iter().flatten().collect(),
        }))
    }

    /// QOS, reservations and licences. A part that cannot be had is told among the problems, unless none can.
    pub async fn rules(&self) -> Result<SlurmRules> {
        let format = rules::EACH.map(|(name, _)| name).join(",");
        let format = format!("format=Name,{format}");
        let each = ["--noheader", "--parsable2", "show", "qos", &format];
        let (qos, each, reservations, licenses) = tokio::join!(
            self.tell("scontrol", &["--oneliner", "show", "assoc_mgr", "flags=qos"]),
            self.tell("sacctmgr", &each),
            self.tell("scontrol", &["show", "reservation", "--oneliner"]),
            self.tell("scontrol", &["show", "licenses", "--oneliner"]),
        );
        let mut all = SlurmRules { licenses: rules::licenses(&licenses?), ..SlurmRules::default() };
        let mut known = |what: &str, answer: Result<String>| match answer {
            Ok(text) => text,
            Err(Error::NoAccounting { .. }) => String::new(),
            Err(error) => {
                all.problems.push(format!("{what}: {error}"));
                String::new()
            }
        };
        let qos = known("limits of QOS", qos);
        let each = known("limits of each user and account", each);
        let reservations = known("reservations", reservations);
        all.qos = rules::qos(&qos);
        rules::add_each(&mut all.qos, &each);
        all.reservations = rules::reservations(&reservations);
        Ok(all)
    }
}

//! Examines the whole cluster: everything is asked at once, then judged by pure functions, and shown worst first.

mod finding;
mod judge;
mod strays;

use jiff::Timestamp;
use kiln_cloud::{Expiry, InstanceStatus, Quota};
use kiln_wire::checkup::{Checkup, Question, ServiceCheck};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

pub use finding::{Finding, Severity};

use crate::checkup::Examinations;
use crate::configure::DIGEST;
use crate::deployment::Deployment;
use crate::error::Result;
use crate::observe::Observed;
use crate::status::StatusReport;

/// What was found in a cluster, worst first.
#[derive(Debug, Clone, Serialize)]
pub struct Diagnosis {
    pub cluster: String,
    pub observed: Timestamp,
    /// How many nodes were asked.
    pub asked: usize,
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// Notes are no reason to worry.
    pub fn is_well(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Note)
    }
}

/// All that was asked.
struct Evidence<'a> {
    observed: &'a Observed,
    /// Of the nodes as Slurm, the cloud and kilnd see them.
    status: StatusReport,
    /// Of the nodes as they see themselves.
    examined: Examinations,
    quotas: std::result::Result<Vec<Quota>, String>,
    expiries: std::result::Result<Vec<Expiry>, String>,
    certificates: std::result::Result<Vec<Expiry>, String>,
    now: Timestamp,
}

/// The name of the check in [`kiln_check`].
const KILN: &str = "kiln";

impl Deployment<'_> {
    pub async fn diagnosis(&self) -> Result<Diagnosis> {
        let observed = self.observe().await?;
        let questions = self.questions(&observed)?;
        let asked = questions.len();
        let cloud = async {
            tokio::join!(self.cloud.quotas(), self.cloud.expiries(&self.spec.name), self.cloud.certificates())
        };
        let nodes = self.examine(&observed, questions);
        let (answer, examined, (quotas, expiries, certificates)) =
            Box::pin(async { tokio::join!(self.ask_control(&observed), nodes, cloud) }).await;
        let evidence = Evidence {
            status: self.report(&observed, answer, &Examinations::new()),
            observed: &observed,
            examined,
            quotas: quotas.map_err(|error| error.to_string()),
            expiries: expiries.map_err(|error| error.to_string()),
            certificates: certificates.map_err(|error| error.to_string()),
            now: Timestamp::now(),
        };
        let findings = judge::findings(self.spec, &evidence);
        Ok(Diagnosis { cluster: self.spec.name.clone(), observed: evidence.now, asked, findings })
    }

    /// For every node that is up: its services, its room and its certificates, and whether it runs this host's binary.
    fn questions(&self, observed: &Observed) -> Result<Vec<(&str, Checkup)>> {
        let digest = hex::encode(Sha256::digest(&self.kiln_bytes()?));
        let instances = observed.nodes();
        let up = self.spec.nodes().filter(|node| {
            instances.get(node.name).is_some_and(|instance| instance.status == InstanceStatus::Active)
        });
        let questions = up.map(|node| {
            let mut checkup = self.checkup_of(&node);
            checkup.services.push(kiln_check(&digest));
            (node.name, checkup)
        });
        Ok(questions.collect())
    }
}

/// Nodes run the deploy host's binary, once they are configured.
fn kiln_check(digest: &str) -> ServiceCheck {
    let compare = format!("{{ {DIGEST}; }} | grep -q \"^$2\"");
    let command = ["sh", "-c", &compare, "sh", kiln_wire::paths::KILN, digest];
    let questions = vec![Question::new("runs another kiln than this host", &command)];
    ServiceCheck { service: KILN.into(), units: Vec::new(), questions }
}

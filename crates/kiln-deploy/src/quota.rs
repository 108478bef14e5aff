//! Users' quotas on the home directories, which the control node reads and sets.

use kiln_wire::quota::{QuotaAnswer, QuotaDeed, QuotaRequest, UserQuota};
use kiln_wire::{Format as _, Version};

use crate::control::Refusal;
use crate::deployment::Deployment;
use crate::error::{Error, Result};

impl Deployment<'_> {
    pub async fn quotas(&self, deed: QuotaDeed) -> Result<Vec<UserQuota>> {
        if !self.spec.volumes.home_quota {
            return Err(Error::NoQuotas);
        }
        if self.spec.cloud.facts().shares_volumes {
            return Err(Error::NoQuotasHere(self.spec.cloud.facts().kind));
        }
        let observed = self.observe().await?;
        self.check_owner(&observed)?;
        let control = self.hosts(&observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        let request = QuotaRequest { format: Version, deed };
        let json = request.to_json().map_err(|error| Error::NotReady(error.to_string()))?;
        let output = self.ssh()?.output(&control, &["kiln", "--json", "node", "quota"], &json).await?;
        if output.status != 0 {
            return Err(Refusal::read(&output.stderr).into());
        }
        let wrong = |error: kiln_wire::ReadError| Error::Node { message: error.to_string(), hint: None };
        Ok(QuotaAnswer::from_json(output.stdout.as_bytes()).map_err(wrong)?.users)
    }
}

//! How Slurm's daemons are.

use super::Slurm;
use crate::error::Result;
use crate::statistics::Statistics;

impl Slurm {
    pub async fn statistics(&self) -> Result<Statistics> {
        Ok(Statistics::parse(&self.call("sdiag", &[]).await?))
    }

    /// Fails where slurmdbd does not answer, or its database does not answer it.
    pub async fn ask_slurmdbd(&self) -> Result<()> {
        self.call("sacctmgr", &["--noheader", "--parsable2", "show", "cluster", "format=cluster"])
            .await
            .map(drop)
    }
}

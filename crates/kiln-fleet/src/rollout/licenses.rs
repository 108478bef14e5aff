//! The licence that rebuild jobs wait for, so that no more of them start than the cloud builds at a time. Slurm gives licences
//! to anybody; this takes it from jobs that are not Kiln's, which lose nothing by it.

use std::collections::BTreeSet;

use kiln_slurm::{Job, JobState, LicenseUse, Slurm};
use kiln_wire::FleetFile;
use kiln_wire::rollout::Rollout;

use crate::error::{Result, chain};
use crate::store::Store;

/// Why a job waits, in Slurm's word.
const WAITS_FOR_LICENSES: &str = "Licenses";

/// All that is looked at while no rebuild job waits without reason is what was read anyway.
pub async fn take_from_others(
    store: &Store,
    slurm: &Slurm,
    file: &FleetFile,
    rollouts: &[Rollout],
    jobs: &[Job],
) -> Result<()> {
    let Some(license) = &file.license else { return Ok(()) };
    let own: BTreeSet<u64> =
        rollouts.iter().flat_map(|r| r.nodes.iter().filter_map(|n| n.step.job())).collect();
    if !are_missing(jobs, &own, file.concurrency) {
        return Ok(());
    }
    for taken in slurm.license_uses(license).await?.iter().filter(|of| is_foreign(of, &own, file)) {
        let job = taken.job;
        match slurm.set_licenses(job, &taken.without(license)).await {
            Ok(()) => {
                tracing::warn!(job, license, "a job that is not Kiln's had the licence of rebuild jobs");
                let why = format!("job {job} had it, and rebuild jobs waited for it");
                store.log("", &format!("licence {license}"), &why, "taken from the job")?;
            }
            // It may be over.
            Err(error) => tracing::warn!(job, license, error = chain(&error), "cannot take a licence"),
        }
    }
    Ok(())
}

/// Rebuild jobs wait for licences although they do not have all of them.
fn are_missing(jobs: &[Job], own: &BTreeSet<u64>, licenses: usize) -> bool {
    let own = || jobs.iter().filter(|job| own.contains(&job.id));
    let begun = own().filter(|job| matches!(job.state, JobState::Configuring | JobState::Running)).count();
    begun < licenses
        && own().any(|job| job.state == JobState::Pending && job.reason.contains(WAITS_FOR_LICENSES))
}

/// Only root submits to rebuild partitions, by hand too.
fn is_foreign(of: &LicenseUse, own: &BTreeSet<u64>, file: &FleetFile) -> bool {
    !own.contains(&of.job) && !file.rebuild_partitions.contains(&of.partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_missing_only_if_kilns_own_jobs_do_not_have_them() {
        let job = |id, state, reason: &str| Job { id, state, comment: String::new(), reason: reason.into() };
        let own = BTreeSet::from([1, 2, 3]);
        let waits = |id| job(id, JobState::Pending, "Licenses");
        let builds = |id| job(id, JobState::Configuring, "None");
        for (jobs, missing) in [
            (vec![waits(1)], true),
            (vec![builds(1), waits(2)], true),
            (vec![builds(1), builds(2), waits(3)], false),
            (vec![builds(1), job(2, JobState::Pending, "Resources")], false),
            // Somebody else's.
            (vec![builds(1), waits(7)], false),
            (vec![job(9, JobState::Running, "None"), job(8, JobState::Running, "None"), waits(1)], true),
        ] {
            assert_eq!(are_missing(&jobs, &own, 2), missing, "{jobs:?}");
        }
    }
}

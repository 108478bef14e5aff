//! Who has a licence, and taking it from them.

use super::Slurm;
use crate::error::Result;
use crate::rows::{delimiter, rows, squeue_format};

/// A job that has licences or waits for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LicenseUse {
    pub job: u64,
    /// Several, with commas, while it waits for one of them.
    pub partition: String,
    /// All that it asked for: `matlab:2,rebuild`.
    pub licenses: String,
}

/// Of `squeue`: id (of each member of an array too), partition, licences.
const FIELDS: [&str; 3] = ["%A", "%P", "%W"];

impl LicenseUse {
    fn parse(text: &str, delimiter: &str) -> Vec<LicenseUse> {
        let of = |[job, partition, licenses]: [&str; FIELDS.len()]| {
            let job = job.parse().ok()?;
            Some(LicenseUse { job, partition: partition.into(), licenses: licenses.into() })
        };
        rows(text, delimiter).into_iter().filter_map(of).collect()
    }

    pub fn has(&self, license: &str) -> bool {
        self.names().any(|(name, _)| name == license)
    }

    /// What it asked for besides this one.
    pub fn without(&self, license: &str) -> String {
        let others: Vec<&str> =
            self.names().filter(|(name, _)| *name != license).map(|(_, whole)| whole).collect();
        others.join(if self.licenses.contains('|') { "|" } else { "," })
    }

    /// Each with its name and as it was written, with its number.
    fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let each = self.licenses.split([',', ';', '|']).filter(|whole| !whole.is_empty());
        each.map(|whole| (whole.split(['(', ':', '=']).next().unwrap_or(whole), whole))
    }
}

impl Slurm {
    /// Jobs that have this licence or wait for it. All jobs are read: `squeue --licenses` does not see what is behind a `;`.
    pub async fn license_uses(&self, license: &str) -> Result<Vec<LicenseUse>> {
        let delimiter = delimiter();
        let format = squeue_format(&FIELDS, &delimiter);
        let mut uses =
            LicenseUse::parse(&self.call("squeue", &["--all", "--noheader", &format]).await?, &delimiter);
        uses.retain(|of| of.has(license));
        Ok(uses)
    }

    /// Gives a job these licences in place of those it has or waits for. It goes on.
    pub async fn set_licenses(&self, job: u64, licenses: &str) -> Result<()> {
        let arguments = ["update", &format!("jobid={job}"), &format!("licenses={licenses}")];
        self.call("scontrol", &arguments).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_told_from_others() {
        let rows = [
            ("7|standard|rebuild:4", true, ""),
            ("7|standard|matlab:2,rebuild", true, "matlab:2"),
            ("7|a,b|matlab@site:2;rebuild:1;x", true, "matlab@site:2,x"),
            ("7|a|rebuild:1|matlab:2", true, "matlab:2"),
            ("7|a|rebuilder:1", false, "rebuilder:1"),
            ("7|a|(null)", false, "(null)"),
        ];
        for (line, has, rest) in rows {
            let text = format!("{}\n", line.replacen('|', "|x9|", 2));
            let [of] = &LicenseUse::parse(&text, "|x9|")[..] else { panic!("{line}") };
            assert_eq!((of.has("rebuild"), of.without("rebuild").as_str()), (has, rest), "{line}");
        }
        assert_eq!(LicenseUse::parse("slurm_load_jobs error: x\n", "|x9|"), []);
    }
}

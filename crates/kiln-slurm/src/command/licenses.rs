//! Who has a licence, and taking it from them.

use super::Slurm;
use crate::error::Result;

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
const FORMAT: &str = "--format=%A|%P|%W";

impl LicenseUse {
    fn parse(line: &str) -> Option<LicenseUse> {
        // Licences that a job asks for as alternatives have the same sign between them.
        let mut fields = line.splitn(3, '|');
        Some(LicenseUse {
            job: fields.next()?.trim().parse().ok()?,
            partition: fields.next()?.trim().to_string(),
            licenses: fields.next()?.trim().to_string(),
        })
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
        let text = self.call("squeue", &["--all", "--noheader", FORMAT]).await?;
        Ok(text.lines().filter_map(LicenseUse::parse).filter(|of| of.has(license)).collect())
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
            let of = LicenseUse::parse(line).unwrap();
            assert_eq!((of.has("rebuild"), of.without("rebuild").as_str()), (has, rest), "{line}");
        }
        assert_eq!(LicenseUse::parse("slurm_load_jobs error: x"), None);
    }
}

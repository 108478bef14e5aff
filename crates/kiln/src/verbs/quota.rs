//! `kiln quota`

use anyhow::anyhow;
use clap::{Args, Subcommand};
use kiln_spec::user_name_fault;
use kiln_wire::quota::{Amount, LimitChange, QuotaDeed, UserQuota};

use crate::cluster;
use crate::context::Context;
use crate::error::Advise as _;
use crate::exit::Exit;
use crate::size::size;
use crate::table::Table;

/// Show and set users' quotas on the home directories
///
/// For a file with `home = { quota = true }` in `[volumes]`. A limit holds on all nodes at once.
#[derive(Debug, Subcommand)]
pub enum Quota {
    List(List),
    Show(Show),
    Set(Set),
}

/// List what users have and may have
///
/// Users who have neither files nor limits are left out.
#[derive(Debug, Args)]
pub struct List {}

/// Show what one user has and may have
#[derive(Debug, Args)]
pub struct Show {
    /// Name of the user
    user: String,
}

/// Set limits of a user
///
/// A soft limit may be exceeded for a week; nothing is written beyond a hard one. Limits that are not named stay as they are.
#[derive(Debug, Args)]
#[group(required = true, multiple = true, id = "change")]
pub struct Set {
    /// Name of the user
    user: String,
    /// Soft limit of space, e.g. `40 GiB`, or `none`
    #[arg(long, value_name = "SIZE", value_parser = space, group = "change")]
    soft: Option<u64>,
    /// Hard limit of space, e.g. `50 GiB`, or `none`
    #[arg(long, value_name = "SIZE", value_parser = space, group = "change")]
    hard: Option<u64>,
    /// Soft limit of the number of files, or `none`
    #[arg(long, value_name = "NUMBER", value_parser = count, group = "change")]
    soft_files: Option<u64>,
    /// Hard limit of the number of files, or `none`
    #[arg(long, value_name = "NUMBER", value_parser = count, group = "change")]
    hard_files: Option<u64>,
}

const NONE: &str = "none";

/// Bytes; 0 is no limit.
fn space(text: &str) -> Result<u64, String> {
    if text == NONE { Ok(0) } else { size(text) }
}

fn count(text: &str) -> Result<u64, String> {
    if text == NONE {
        return Ok(0);
    }
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number of files, or none".to_string())
}

impl Quota {
    pub fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let deed = self.deed()?;
        let users = cluster::with(context, async |deployment| Ok(deployment.quotas(deed).await?))?;
        if context.printer.is_json() {
            context.printer.json(&users)?;
        } else if users.is_empty() {
            context.printer.say("nobody has files or limits");
        } else {
            context.printer.raw(table(&users))?;
        }
        Ok(Exit::Ok)
    }

    /// What cannot be right is not asked for.
    fn deed(&self) -> anyhow::Result<QuotaDeed> {
        Ok(match self {
            Quota::List(_) => QuotaDeed::List,
            Quota::Show(Show { user }) => QuotaDeed::Show { user: checked(user)? },
            Quota::Set(set) => QuotaDeed::Set { user: checked(&set.user)?, change: set.change()? },
        })
    }
}

impl Set {
    fn change(&self) -> anyhow::Result<LimitChange> {
        for (soft, hard) in [(self.soft, self.hard), (self.soft_files, self.hard_files)] {
            if let (Some(soft), Some(hard @ 1..)) = (soft, hard)
                && soft > hard
            {
                return Err(anyhow!("the soft limit is above the hard one")).exit(Exit::Usage);
            }
        }
        Ok(LimitChange {
            soft_bytes: self.soft,
            hard_bytes: self.hard,
            soft_files: self.soft_files,
            hard_files: self.hard_files,
        })
    }
}

fn checked(user: &str) -> anyhow::Result<String> {
    match user_name_fault(user) {
        Some(fault) => Err(anyhow!("a user cannot be named {user}")).exit(Exit::Usage).hint(fault),
        None => Ok(user.to_owned()),
    }
}

fn table(users: &[UserQuota]) -> Table {
    let mut table = Table::new(["user", "used", "soft", "hard", "files", "soft files", "hard files", "note"]);
    for UserQuota { user, bytes, files } in users {
        let limit = |limit: Option<u64>, show: fn(u64) -> String| limit.map(show).unwrap_or_default();
        table.row([
            user.clone(),
            bytes_text(bytes.used),
            limit(bytes.soft, bytes_text),
            limit(bytes.hard, bytes_text),
            files.used.to_string(),
            limit(files.soft, |count| count.to_string()),
            limit(files.hard, |count| count.to_string()),
            note(bytes).or_else(|| note(files)).unwrap_or_default(),
        ]);
    }
    table
}

fn note(amount: &Amount) -> Option<String> {
    let ends = amount.grace_ends?;
    let now = jiff::Timestamp::now();
    let day = ends.strftime("%Y-%m-%d %H:%M UTC");
    Some(if ends > now { format!("above soft, until {day}") } else { format!("full since {day}") })
}

fn bytes_text(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let (shift, unit) = units.into_iter().find(|(shift, _)| bytes >> shift > 0).unwrap_or((10, "KiB"));
    let tenths = bytes.saturating_mul(10) >> shift;
    if tenths.is_multiple_of(10) {
        return format!("{} {unit}", tenths / 10);
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_sizes_or_none() {
        assert_eq!(
            (space("40 GiB"), space("none"), count("7"), count("none")),
            (Ok(40 << 30), Ok(0), Ok(7), Ok(0))
        );
        assert!(
            space("40").is_err() && space("0 GiB").is_err() && count("0").is_err() && count("-1").is_err()
        );
    }

    #[test]
    fn sizes_are_short() {
        let shown = [0, 5121 << 10, 40 << 30, (1 << 40) + (1 << 39)].map(bytes_text);
        assert_eq!(shown, ["0 KiB", "5 MiB", "40 GiB", "1.5 TiB"]);
    }

    #[test]
    fn who_is_above_a_limit_is_told() {
        let ends = |second| Some(jiff::Timestamp::from_second(second).unwrap());
        let amount = |grace_ends| Amount { used: 9, soft: Some(8), hard: None, grace_ends };
        assert_eq!(note(&amount(None)), None);
        assert_eq!(note(&amount(ends(86_400))).as_deref(), Some("full since 1970-01-02 00:00 UTC"));
        assert_eq!(
            note(&amount(ends(9_999_964_800))).as_deref(),
            Some("above soft, until 2286-11-20 08:00 UTC")
        );
        let user = UserQuota { user: "ada".into(), bytes: amount(None), files: Amount::default() };
        let text = table(&[user]).to_string();
        assert_eq!(text.lines().count(), 2);
    }
}

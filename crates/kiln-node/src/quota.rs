//! Users' quotas on the home directories of this control node: `kiln quota` reads and sets them here.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use kiln_wire::Version;
use kiln_wire::quota::{Amount, LimitChange, QuotaAnswer, QuotaDeed, QuotaRequest, UserQuota};

use crate::apply::quota::kernel_has;
use crate::lock::{self, LockError};
use crate::mounts;
use crate::process::{self, ProcessError};

const HOME: &str = "/home";
/// A directory server may be asked for each name.
const LIMIT: Duration = Duration::from_secs(300);
/// What the programs count space in.
const BLOCK: u64 = 1024;

#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    #[error("{HOME} is not mounted on the control node")]
    NotMounted,
    #[error("user quotas are not enforced on {HOME}")]
    Off { kernel_has: bool },
    #[error("there is no user {0}")]
    Unknown(String),
    #[error("root has no limits")]
    Root,
    #[error("the soft limit of {what} would be above the hard one: {soft} above {hard}")]
    Crossed { what: &'static str, soft: u64, hard: u64 },
    #[error("cannot read what is mounted")]
    Mounts(#[source] std::io::Error),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl QuotaError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            QuotaError::NotMounted => Some("`kiln doctor` says what is wrong with the control node"),
            QuotaError::Off { kernel_has: false } => Some(
                "the control node's kernel has none: its image needs the module quota_v2, which Ubuntu has in linux-modules-extra",
            ),
            QuotaError::Off { kernel_has: true } => {
                Some("they begin with a `kiln configure` while nothing on the control node uses /home")
            }
            QuotaError::Unknown(_) => Some("the control node must know the name"),
            QuotaError::Crossed { .. } => Some("give both limits; nothing was changed"),
            _ => None,
        }
    }
}

pub fn carry_out(request: &QuotaRequest) -> Result<QuotaAnswer, QuotaError> {
    match mounts::mounted_at(HOME).map_err(QuotaError::Mounts)? {
        None => return Err(QuotaError::NotMounted),
        Some(now) if !now.quota => return Err(QuotaError::Off { kernel_has: kernel_has() }),
        Some(_) => {}
    }
    let users = match &request.deed {
        QuotaDeed::List => all()?,
        QuotaDeed::Show { user } => vec![of(&known(user)?)?],
        QuotaDeed::Set { user, change } => {
            let user = known(user)?;
            // What is not to change is read, and written again.
            let _lock = lock::acquire_for_users(Path::new("/"))?;
            set(&user, &of(&user)?, change)?;
            vec![of(&user)?]
        }
    };
    Ok(QuotaAnswer { format: Version, users })
}

struct Known {
    name: String,
    uid: u32,
}

fn known(user: &str) -> Result<Known, QuotaError> {
    let unknown = || QuotaError::Unknown(user.to_owned());
    let found = process::run(&["getent", "--", "passwd", user], None, LIMIT)?;
    let mut fields = found.stdout.split(':');
    let (name, uid) = (fields.next().unwrap_or_default().to_owned(), fields.nth(1));
    match uid.and_then(|uid| uid.parse().ok()).ok_or_else(unknown)? {
        0 => Err(QuotaError::Root),
        uid => Ok(Known { name, uid }),
    }
}

fn all() -> Result<Vec<UserQuota>, QuotaError> {
    // Also those that have limits alone. Each name is asked for: a directory does not list its users.
    let report = ["repquota", "--user", "--verbose", "--no-cache", "--raw-grace", "--output=csv", HOME];
    let mut users = parse(&process::run(&report, None, LIMIT)?.checked()?.stdout);
    users.retain(|user| user.user != "root" && !is_empty(user));
    users.sort_by(|a, b| a.user.cmp(&b.user));
    Ok(users)
}

fn is_empty(user: &UserQuota) -> bool {
    let is_empty = |amount: &Amount| *amount == Amount::default();
    is_empty(&user.bytes) && is_empty(&user.files)
}

fn of(user: &Known) -> Result<UserQuota, QuotaError> {
    let found = all()?.into_iter().find(|one| one.user == user.name);
    // The report leaves out who has neither files nor limits.
    let nothing =
        || UserQuota { user: user.name.clone(), bytes: Amount::default(), files: Amount::default() };
    Ok(found.unwrap_or_else(nothing))
}

fn set(user: &Known, now: &UserQuota, change: &LimitChange) -> Result<(), QuotaError> {
    let mut argv = vec!["setquota".to_owned(), "--user".to_owned(), user.uid.to_string()];
    argv.extend(limits(now, change)?.map(|limit| limit.to_string()));
    argv.push(HOME.to_owned());
    process::run(&argv, None, LIMIT)?.checked()?;
    Ok(())
}

/// As `setquota` wants them: of space in blocks, of files; soft, hard. 0 is no limit.
fn limits(now: &UserQuota, change: &LimitChange) -> Result<[u64; 4], QuotaError> {
    let pair = |what, now: &Amount, soft: Option<u64>, hard: Option<u64>| {
        let soft = soft.or(now.soft).unwrap_or_default();
        let hard = hard.or(now.hard).unwrap_or_default();
        if hard > 0 && soft > hard { Err(QuotaError::Crossed { what, soft, hard }) } else { Ok([soft, hard]) }
    };
    let [soft, hard] = pair("bytes", &now.bytes, change.soft_bytes, change.hard_bytes)?;
    let [soft_files, hard_files] = pair("files", &now.files, change.soft_files, change.hard_files)?;
    Ok([soft.div_ceil(BLOCK), hard.div_ceil(BLOCK), soft_files, hard_files])
}

/// Lines of another form, such as the header, are none of users.
fn parse(report: &str) -> Vec<UserQuota> {
    report.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<UserQuota> {
    let fields: [&str; 11] = line.split(',').collect::<Vec<_>>().try_into().ok()?;
    let (bytes, files) = (amount(&fields[3..7], BLOCK)?, amount(&fields[7..], 1)?);
    Some(UserQuota { user: fields[0].to_owned(), bytes, files })
}

fn amount(fields: &[&str], unit: u64) -> Option<Amount> {
    let [used, soft, hard, grace] = fields else { return None };
    let number = |text: &str| text.parse::<u64>().ok()?.checked_mul(unit);
    let limit = |text: &str| number(text).map(|limit| (limit > 0).then_some(limit));
    let grace = grace.parse::<i64>().ok().filter(|second| *second > 0);
    Some(Amount {
        used: number(used)?,
        soft: limit(soft)?,
        hard: limit(hard)?,
        grace_ends: grace.and_then(|second| Timestamp::from_second(second).ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `repquota` of Debian 12 writes it.
    const REPORT: &str = "\
User,BlockStatus,FileStatus,BlockUsed,BlockSoftLimit,BlockHardLimit,BlockGrace,FileUsed,FileSoftLimit,FileHardLimit,FileGrace
root,ok,ok,13,0,0,0,2,0,0,0
ada,soft,ok,10237,8192,10240,1795543142,3,0,0,0
#3001,ok,ok,0,0,0,0,0,5,9,0
";

    #[test]
    fn reports_are_read() {
        let users = parse(REPORT);
        let names: Vec<&str> = users.iter().map(|user| user.user.as_str()).collect();
        assert_eq!(names, ["root", "ada", "#3001"]);
        let bytes = &users[1].bytes;
        assert_eq!((bytes.used, bytes.soft, bytes.hard), (10_237 << 10, Some(8 << 20), Some(10 << 20)));
        assert_eq!(bytes.grace_ends.map(Timestamp::as_second), Some(1_795_543_142));
        assert_eq!(users[1].files, Amount { used: 3, ..Amount::default() });
        assert_eq!((users[2].files.soft, users[2].files.hard), (Some(5), Some(9)));
        assert!(
            parse("ada,ok\n\n*** Report\nada,ok,ok,x,0,0,0,0,0,0,0\na,b,c,1,2,3,4,5,6,7,8,9\n").is_empty()
        );
    }

    #[test]
    fn limits_change_one_by_one_and_do_not_cross() {
        let ada = &parse(REPORT)[1];
        let change =
            |soft_bytes, hard_bytes| LimitChange { soft_bytes, hard_bytes, ..LimitChange::default() };
        assert_eq!(limits(ada, &change(None, Some(20 << 20))).unwrap(), [8192, 20_480, 0, 0]);
        assert_eq!(limits(ada, &change(Some(0), None)).unwrap(), [0, 10_240, 0, 0]);
        assert_eq!(limits(ada, &change(Some(30 << 20), Some(0))).unwrap(), [30_720, 0, 0, 0], "no hard one");
        for (soft, hard) in [(Some(11 << 20), None), (None, Some(1 << 20))] {
            assert!(matches!(
                limits(ada, &change(soft, hard)),
                Err(QuotaError::Crossed { what: "bytes", .. })
            ));
        }
        let files = LimitChange { soft_files: Some(9), hard_files: Some(8), ..LimitChange::default() };
        assert!(matches!(limits(ada, &files), Err(QuotaError::Crossed { what: "files", .. })));
    }

    #[test]
    fn users_are_those_that_the_node_knows() {
        let nobody = known("nobody").unwrap();
        assert!(nobody.name == "nobody" && nobody.uid > 0);
        assert!(matches!(known("root"), Err(QuotaError::Root)));
        for unknown in ["no-such-user", "", "-s"] {
            assert!(matches!(known(unknown), Err(QuotaError::Unknown(_))), "{unknown}");
        }
    }
}

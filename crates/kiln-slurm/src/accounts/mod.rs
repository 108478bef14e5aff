//! Accounts, users' associations and QOS: what the cluster file wants, what slurmdbd has, and the `sacctmgr` commands that lead from one to the
//! other. Nothing is run here.
//!
//! A slurmdbd may serve several clusters. Associations belong to one of them; accounts and QOS to all. Only associations of the own cluster are
//! touched, and nothing is removed that another cluster uses.

mod difference;
mod present;
mod settings;
mod wanted;

pub use difference::{Change, Difference, difference};
pub use present::{Present, Question, parse};
pub use settings::Settings;
pub use wanted::{Account, Member, Qos, Wanted, tracked_resources};

/// The account that every cluster has, above all others.
pub const ROOT: &str = "root";
/// The QOS that slurmdbd makes with its database.
const NORMAL: &str = "normal";

/// Users whom Slurm itself needs in the account `root`: they are never removed.
const OWN_USERS: [&str; 2] = ["root", crate::node::SLURM_USER];

/// What `sacctmgr` says where there was nothing to do. It calls that a failure.
const NOTHING_TO_DO: [&str; 6] = [
    "nothing new added",
    "nothing modified",
    "nothing deleted",
    "already existing",
    "didn't affect anything",
    "has not changed since",
];

/// Whether a command of `sacctmgr` that failed had nothing left to do.
pub fn had_nothing_to_do(said: &str) -> bool {
    let said = said.to_lowercase();
    NOTHING_TO_DO.iter().any(|words| said.contains(words))
}

/// Whether something was not removed because jobs use it. `sacctmgr` calls that a success.
pub fn is_in_use(said: &str) -> bool {
    said.to_lowercase().contains("job(s) active")
}

/// Whether slurmdbd could not be asked.
pub fn is_unreachable(said: &str) -> bool {
    let words = said.to_lowercase();
    crate::error::is_unreachable(said) || words.contains("persist") || words.contains("getaddrinfo")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What 22.05 and 24.11 have said.
    #[test]
    fn sacctmgrs_words_are_sorted() {
        for said in [
            " Nothing new added.",
            " Nothing modified",
            " Already existing account physics on cluster lab",
            "sacctmgr: error: Request didn't affect anything\n Error with request: Data has not changed since time specified",
        ] {
            assert!(had_nothing_to_do(said) && !is_unreachable(said), "{said}");
        }
        let refused = " Error with request: You can not remove the default account of a user";
        assert!(!had_nothing_to_do(refused) && !is_in_use(refused) && !is_unreachable(refused));
        assert!(is_in_use(" Error with request: Job(s) active, cancel job(s) before remove"));
        let down = "sacctmgr: error: Sending PersistInit msg: Connection refused\n Problem with query.";
        assert!(is_unreachable(down) && is_unreachable("error: getaddrinfo() failed: Name or service not known"));
    }
}

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
        let refused = " Error with request: You can not remove the default account of a user";
        assert!(!is_in_use(refused) && !is_unreachable(refused));
        let nothing = "sacctmgr: error: Request didn't affect anything\n Error with request: Data has not changed since time specified";
        assert!(!is_in_use(nothing) && !is_unreachable(nothing));
        assert!(is_in_use(" Error with request: Job(s) active, cancel job(s) before remove"));
        let down = "sacctmgr: error: Sending PersistInit msg: Connection refused\n Problem with query.";
        assert!(
            is_unreachable(down) && is_unreachable("error: getaddrinfo() failed: Name or service not known")
        );
    }
}

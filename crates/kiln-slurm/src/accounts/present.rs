//! What slurmdbd has: the questions for `sacctmgr`, and its answers.

use std::collections::{BTreeMap, BTreeSet};

use super::settings::{Kind, Settings, of_association, of_qos};

/// Everything that is compared with the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Present {
    pub clusters: BTreeSet<String>,
    /// Kinds of resources that limits can be about: `cpu`, `gres/gpu`.
    pub resources: BTreeSet<String>,
    pub qos: BTreeMap<String, Settings>,
    /// Of all clusters: organisation and description.
    pub accounts: BTreeMap<String, (String, String)>,
    /// Of the own cluster.
    pub associations: Vec<Association>,
    /// Accounts of users' jobs that name none, on the own cluster.
    pub defaults: BTreeMap<String, String>,
    /// Accounts that other clusters use.
    pub elsewhere: BTreeSet<String>,
}

/// What an account has on the cluster, or a user in it, or a user in it in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Association {
    pub account: String,
    /// Empty: it is the account's own.
    pub user: String,
    /// Empty: it is for all partitions.
    pub partition: String,
    /// Of an account's own.
    pub parent: String,
    pub settings: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    Clusters,
    Resources,
    Qos,
    Accounts,
    Associations,
    Defaults,
    Elsewhere,
}

impl Question {
    pub const ALL: [Question; 7] = [
        Question::Clusters,
        Question::Resources,
        Question::Qos,
        Question::Accounts,
        Question::Associations,
        Question::Defaults,
        Question::Elsewhere,
    ];

    /// The command that asks it. Values are those of each association itself (`WOPLimits`), not what it has from those above it.
    pub fn command(self, cluster: &str) -> Vec<String> {
        let cluster = format!("cluster={cluster}");
        let words: Vec<String> = match self {
            Question::Clusters => vec!["cluster".into(), "format=Cluster".into()],
            Question::Resources => vec!["tres".into(), "format=Type,Name".into()],
            Question::Qos => vec!["qos".into(), format_of(&["Name"], of_qos())],
            Question::Accounts => vec!["account".into(), "format=Account,Organization,Description".into()],
            Question::Associations => {
                let format = format_of(&["Account", "User", "Partition", "ParentName"], of_association());
                vec!["association".into(), "where".into(), cluster, "WOPLimits".into(), format]
            }
            Question::Defaults => {
                vec!["user".into(), "where".into(), cluster, "format=User,DefaultAccount".into()]
            }
            Question::Elsewhere => vec!["association".into(), "format=Cluster,Account".into()],
        };
        let show = ["sacctmgr", "--noheader", "--parsable2", "show"].map(String::from);
        show.into_iter().chain(words).collect()
    }
}

fn format_of(first: &[&str], kinds: impl Iterator<Item = (&'static str, Kind)>) -> String {
    let names: Vec<&str> = first.iter().copied().chain(kinds.map(|(name, _)| name)).collect();
    format!("format={}", names.join(","))
}

/// Reads what `sacctmgr` has answered to each question.
pub fn parse<E>(cluster: &str, mut answer: impl FnMut(Question) -> Result<String, E>) -> Result<Present, E> {
    let mut present = Present::default();
    for question in Question::ALL {
        let text = answer(question)?;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            present.read(question, line, cluster);
        }
    }
    Ok(present)
}

impl Present {
    fn read(&mut self, question: Question, line: &str, cluster: &str) {
        match question {
            Question::Clusters => _ = self.clusters.insert(line.trim().to_string()),
            Question::Resources => {
                let [kind, name] = fields(line);
                let resource = if name.is_empty() { kind } else { format!("{kind}/{name}") };
                self.resources.insert(resource.to_lowercase());
            }
            Question::Qos => {
                let kinds: Vec<_> = of_qos().collect();
                let mut values = line.splitn(kinds.len() + 1, '|');
                let name = values.next().unwrap_or_default().to_string();
                self.qos.insert(name, settings(&kinds, values));
            }
            Question::Accounts => {
                let [account, organisation, description] = fields(line);
                self.accounts.insert(account, (organisation, description));
            }
            Question::Associations => {
                let kinds: Vec<_> = of_association().collect();
                let mut values = line.split('|');
                let mut next = || values.next().unwrap_or_default().to_string();
                let (account, user, partition, parent) = (next(), next(), next(), next());
                let settings = settings(&kinds, values);
                self.associations.push(Association { account, user, partition, parent, settings });
            }
            Question::Defaults => {
                let [user, account] = fields(line);
                if !account.is_empty() {
                    self.defaults.insert(user, account);
                }
            }
            Question::Elsewhere => {
                let [of, account] = fields(line);
                if of != cluster {
                    self.elsewhere.insert(account);
                }
            }
        }
    }

    /// What an account itself has on the cluster.
    pub(super) fn account(&self, name: &str) -> Option<&Association> {
        self.associations.iter().find(|of| of.account == name && of.user.is_empty())
    }

    /// What a user has in an account, in all partitions.
    pub(super) fn member(&self, user: &str, account: &str) -> Option<&Association> {
        let is_it = |of: &&Association| of.account == account && of.user == user && of.partition.is_empty();
        self.associations.iter().find(is_it)
    }

    /// How far an account is below `root`.
    pub(super) fn depth(&self, account: &str) -> usize {
        let mut above = account;
        (0..self.associations.len())
            .take_while(|_| match self.account(above) {
                Some(of) if !of.parent.is_empty() => {
                    above = &of.parent;
                    true
                }
                _ => false,
            })
            .count()
    }
}

/// The last takes what is left of the line.
fn fields<const N: usize>(line: &str) -> [String; N] {
    let mut values = line.splitn(N, '|');
    std::array::from_fn(|_| values.next().unwrap_or_default().trim().to_string())
}

fn settings<'a>(kinds: &[(&'static str, Kind)], values: impl Iterator<Item = &'a str>) -> Settings {
    let set = kinds.iter().zip(values);
    set.filter_map(|((name, kind), value)| Some((name.to_string(), kind.canonical(value)?))).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What 22.05 and 24.11 print: the two differ in the order of lines only.
    #[allow(clippy::unnecessary_wraps, reason = "as sacctmgr answers, which may fail")]
    pub fn answers(question: Question) -> Result<String, ()> {
        let qos_limits = "|".repeat(of_qos().count() - 6);
        let assoc = |first: &str, share: &str, qos: &str, limits: &str| {
            let limits = if limits.is_empty() { "|".repeat(16) } else { limits.to_string() };
            format!("{first}|{share}|{qos}|{limits}\n")
        };
        Ok(match question {
            Question::Clusters => "lab\nother\n".into(),
            Question::Resources => "cpu|\nmem|\nenergy|\nnode|\nbilling|\nfs|disk\ngres|gpu\n".into(),
            Question::Qos => format!(
                "normal|0||||00:00:00|1.000000{qos_limits}Normal QOS default\n\
                 long|10|DenyOnLimit,NoReserve|debug|requeue|1-01:00:00|2.500000{qos_limits}a | b\n"
            ),
            Question::Accounts => {
                "physics|uni|physics\nroot|root|default root account\nscience|uni|big science\nold|uni|old\n"
                    .into()
            }
            Question::Associations => [
                assoc("root|||", "1", "normal", ""),
                assoc("root|root||", "1", "", ""),
                assoc("science|||root", "5", "normal,long", "||||cpu=5|||||11||||||||"),
                assoc("physics|||science", "parent", "", ""),
                assoc("physics|ada|p|", "1", "", "||||||||3||||||||"),
                assoc("physics|ada||", "1", "", ""),
                assoc("physics|ben||", "4", "", ""),
                assoc("old|||science", "1", "", ""),
                assoc("old|carl||", "1", "", ""),
            ]
            .concat(),
            Question::Defaults => "ada|physics\nben|physics\ncarl|old\nroot|root\n".into(),
            Question::Elsewhere => "lab|root\nlab|physics\nother|root\nother|old\n".into(),
        })
    }

    #[test]
    fn what_sacctmgr_prints_is_read() {
        let present = parse("lab", answers).unwrap();
        assert_eq!(present.clusters.len(), 2);
        assert!(present.resources.contains("fs/disk") && present.resources.contains("gres/gpu"));
        assert_eq!(present.qos["normal"].len(), 1, "{:?}", present.qos["normal"]);
        let long = &present.qos["long"];
        assert_eq!(long["Flags"], "DenyOnLimit,NoReserve");
        assert_eq!((long["GraceTime"].as_str(), long["Description"].as_str()), ("90000", "a | b"));
        assert_eq!(present.accounts["science"], ("uni".into(), "big science".into()));
        let science = present.account("science").unwrap();
        assert_eq!(science.settings["QOS"], "long,normal");
        assert_eq!(science.settings["Fairshare"], "5");
        assert_eq!(present.account("physics").unwrap().settings["Fairshare"], "parent");
        assert!(present.member("ada", "physics").unwrap().settings.is_empty());
        assert_eq!(present.member("ada", "science"), None);
        assert_eq!((present.depth("root"), present.depth("physics")), (0, 2));
        assert_eq!(present.defaults["ben"], "physics");
        assert_eq!(present.elsewhere, BTreeSet::from(["old".to_string(), "root".into()]));
    }

    #[test]
    fn commands_are_about_the_own_cluster_and_own_values() {
        let asked = Question::Associations.command("lab").join(" ");
        assert!(
            asked.starts_with("sacctmgr --noheader --parsable2 show association where cluster=lab WOPLimits")
        );
        assert!(asked.contains("format=Account,User,Partition,ParentName,Fairshare,QOS,DefaultQOS,GrpJobs,"));
    }
}

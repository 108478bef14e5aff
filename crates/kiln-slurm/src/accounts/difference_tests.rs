//! What is done, in which order, and what is left alone.

use super::super::present::tests::answers;
use super::super::present::{Association, parse};
use super::*;

fn settings(text: &str) -> Settings {
    let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn account(name: &str, parent: &str, of: &str) -> Account {
    Account {
        name: name.into(),
        parent: parent.into(),
        description: name.into(),
        organisation: "uni".into(),
        settings: settings(of),
    }
}

fn member(user: &str, account: &str, default: bool, of: &str) -> Member {
    Member { user: user.into(), account: account.into(), default, settings: settings(of) }
}

fn qos(name: &str, of: &str) -> Qos {
    Qos { name: name.into(), settings: settings(&format!("Description={name} {of}")) }
}

/// What [`answers`] has.
fn as_it_is(manage: bool) -> Wanted {
    let mut science =
        account("science", "root", "Fairshare=5 QOS=long,normal GrpTRES=cpu=5 MaxJobsAccrue=11");
    science.description = "big science".into();
    Wanted {
        cluster: "lab".into(),
        manage,
        qos: Vec::new(),
        accounts: vec![
            science,
            account("physics", "science", "Fairshare=parent"),
            account("old", "science", ""),
        ],
        members: vec![
            member("ada", "physics", true, ""),
            member("ben", "physics", true, "Fairshare=4"),
            member("carl", "old", true, ""),
        ],
    }
}

fn found(wanted: &Wanted) -> Difference {
    difference(wanted, &parse("lab", answers).unwrap())
}

fn texts(difference: &Difference) -> Vec<&str> {
    difference.changes.iter().map(|change| change.text.as_str()).collect()
}

fn commands(difference: &Difference) -> Vec<String> {
    let command = |change: &Change| {
        let text = change.command.join(" ");
        text.strip_prefix("sacctmgr --immediate --quiet ").expect("a command").to_string()
    };
    difference.changes.iter().map(command).collect()
}

#[test]
fn what_is_as_wanted_is_left_alone() {
    assert_eq!(found(&as_it_is(true)), Difference::default());
    assert_eq!(found(&as_it_is(false)), Difference::default());
}

#[test]
fn everything_is_added_to_an_empty_slurmdbd() {
    let wanted = Wanted {
        cluster: "new".into(),
        manage: false,
        qos: vec![qos("high", "Preempt=low Priority=5"), qos("low", "")],
        accounts: vec![account("a", "root", ""), account("b", "a", "GrpTRES=cpu=4 QOS=high,low")],
        members: vec![
            member("slurm", "root", true, ""),
            member("ada", "a", false, ""),
            member("ada", "b", true, ""),
            member("ben", "b", true, ""),
            member("carl", "b", true, "MaxJobs=2"),
        ],
    };
    let difference = difference(&wanted, &Present::default());
    let expected = [
        "add cluster name=new",
        "add qos name=high",
        "add qos name=low",
        "modify qos where name=high set Priority=5 Preempt=low",
        "add account name=a cluster=new parent=root description=a organization=uni",
        "add account name=b cluster=new parent=a description=b organization=uni QOS=high,low GrpTRES=cpu=4",
        "add user name=slurm account=root cluster=new",
        "add user name=ada,ben account=b cluster=new",
        "add user name=carl account=b cluster=new MaxJobs=2",
        "add user name=ada account=a cluster=new",
    ];
    assert_eq!(commands(&difference), expected);
    assert!(difference.kept.is_empty());
    assert_eq!(texts(&difference)[7], "+ members ada,ben of b");
}

#[test]
fn what_differs_is_changed_or_kept() {
    let change = |manage| {
        let mut wanted = as_it_is(manage);
        wanted.qos = vec![qos("long", "Priority=7 MaxJobsPerUser=2")];
        wanted.accounts[0].settings = settings("Fairshare=5 QOS=long,normal GrpTRES=mem=1G");
        wanted.accounts[1].description = "physicists".into();
        wanted.members[0].settings = settings("MaxJobs=1");
        wanted
    };
    let expected = [
        "qos long: Priority 10 -> 7, Flags DenyOnLimit,NoReserve -> none, Preempt debug -> none, PreemptMode requeue -> none, \
         GraceTime 90000 -> none, UsageFactor 2.500000 -> none, MaxJobsPerUser none -> 2, Description a | b -> long",
        "account science: GrpTRES cpu=5 -> mem=1G, MaxJobsAccrue 11 -> none",
        "account physics: description \"physics\" -> \"physicists\"",
        "member ada of physics: MaxJobs none -> 1",
    ];
    let kept = found(&change(false));
    assert_eq!((kept.changes.len(), kept.kept), (0, expected.map(String::from).to_vec()));
    let changed = found(&change(true));
    assert_eq!(texts(&changed), expected.map(|text| format!("~ {text}")));
    let expected = [
        "modify account where name=science cluster=lab set GrpTRES=mem=1G,cpu=-1 MaxJobsAccrue=-1",
        // A description belongs to all clusters.
        "modify account where name=physics set description=physicists",
        "modify user where name=ada account=physics cluster=lab partition= set MaxJobs=1",
    ];
    assert_eq!(commands(&changed)[1..], expected);
}

#[test]
fn accounts_move_and_users_go_before_their_accounts() {
    let mut wanted = as_it_is(true);
    wanted.accounts = vec![account("physics", "root", "Fairshare=parent"), account("labs", "physics", "")];
    wanted.members = vec![member("ada", "labs", true, ""), member("ben", "physics", true, "Fairshare=4")];
    let difference = found(&wanted);
    let expected = [
        "modify account where name=physics cluster=lab set parent=root",
        "add account name=labs cluster=lab parent=physics description=labs organization=uni",
        "add user name=ada account=labs cluster=lab",
        "modify user where name=ada cluster=lab set DefaultAccount=labs",
        "delete user where name=ada account=physics cluster=lab",
        "delete user where name=carl cluster=lab",
        // Another cluster has it, too.
        "delete account where name=old cluster=lab",
        "delete account where name=science",
    ];
    assert_eq!(commands(&difference), expected);
    let removes: Vec<bool> = difference.changes.iter().map(|change| change.removes).collect();
    assert_eq!(removes, [false, false, false, false, true, true, true, true]);
}

#[test]
fn nothing_is_removed_where_kiln_only_adds_or_the_file_has_no_accounts() {
    let mut wanted = as_it_is(false);
    wanted.accounts.truncate(1);
    wanted.members.clear();
    assert_eq!(found(&wanted), Difference::default());
    let mut wanted = as_it_is(true);
    (wanted.accounts, wanted.members) = (Vec::new(), Vec::new());
    assert_eq!(found(&wanted), Difference::default());
}

#[test]
fn a_qos_goes_only_where_no_other_cluster_could_use_it() {
    let mut wanted = as_it_is(true);
    wanted.qos = vec![qos("normal", "")];
    wanted.qos[0].settings = settings("Description=x");
    let mut present = parse("lab", answers).unwrap();
    present.qos.insert("normal".into(), settings("Description=x"));
    assert_eq!(texts(&difference(&wanted, &present)), [""; 0], "`other` is there");
    present.clusters.remove("other");
    assert_eq!(commands(&difference(&wanted, &present)), ["delete qos where name=long"]);
}

/// The account `root` is Slurm's: who is in it stays, and has a default account that stays.
#[test]
fn the_account_root_is_left_alone() {
    let mut present = parse("lab", answers).unwrap();
    let row = |account: &str, user: &str| Association {
        account: account.into(),
        user: user.into(),
        partition: String::new(),
        parent: String::new(),
        settings: Settings::new(),
    };
    present.associations.extend([row("root", "carl"), row("root", "slurm")]);
    present.associations.iter_mut().filter(|of| of.user == "slurm").for_each(|of| {
        of.settings = settings("MaxSubmitJobs=0");
    });
    let mut wanted = as_it_is(true);
    wanted.accounts.pop();
    wanted.members.pop();
    wanted.members.push(member("slurm", "root", true, ""));
    let expected = [
        "modify user where name=carl cluster=lab set DefaultAccount=root",
        "delete user where name=carl account=old cluster=lab",
        "delete account where name=old cluster=lab",
    ];
    assert_eq!(commands(&difference(&wanted, &present)), expected);
}

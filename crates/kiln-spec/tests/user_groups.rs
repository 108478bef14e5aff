//! A group keeps its gid, whoever else comes: files on volumes know their group by number.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::Config;

const HEAD: &str = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\n";

/// Few names, so that users and groups often share one; `beta` and `team355` derive the same gid.
const NAMES: [&str; 6] = ["ada", "bob", "physics", "beta", "team355", "video"];

/// Uids that no name derives, and those that `beta` and `physics` derive.
const UIDS: [u32; 6] = [2001, 2002, 2003, 2004, 40_511, 52_250];

type Users = BTreeMap<&'static str, (u32, Vec<&'static str>)>;

fn file(users: &Users, given: &[(&str, u32)]) -> String {
    let user = |(name, (uid, groups)): (&&str, &(u32, Vec<&str>))| {
        format!("[user.{name}]\nuid = {uid}\ngroups = {groups:?}\n")
    };
    let group = |(name, gid): &(&str, u32)| format!("[user_group.{name}]\ngid = {gid}\n");
    let users: String = users.iter().map(user).collect();
    format!("{HEAD}{users}{}", given.iter().map(group).collect::<String>())
}

/// All groups of the cluster by name; `None`: the file is refused.
fn gids(text: &str) -> Option<BTreeMap<String, u32>> {
    let spec = kiln_spec::parse(text, "cluster.toml").ok()?;
    let own = spec.users.iter().map(|user| (user.name.clone(), user.uid));
    let groups = spec.user_groups.iter().map(|group| (group.name.clone(), group.gid));
    let all: BTreeMap<String, u32> = groups.chain(own).collect();
    let mut numbers: Vec<u32> = all.values().copied().collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), all.len(), "a gid is given twice: {all:?}");
    Some(all)
}

fn users() -> impl Strategy<Value = Users> {
    let groups = prop::collection::vec(prop::sample::select(&NAMES), 0..3);
    let user = (prop::sample::select(&UIDS), groups);
    prop::collection::btree_map(prop::sample::select(&NAMES), user, 1..5)
}

proptest! {
    #![proptest_config(Config { cases: 2000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_user_more_or_less_changes_no_gid(
        users in users(),
        leaves in any::<prop::sample::Index>(),
        given in prop::collection::btree_map(prop::sample::select(&NAMES), prop::sample::select(&UIDS), 0..2),
    ) {
        let given: Vec<(&str, u32)> = given.into_iter().collect();
        let mut fewer = users.clone();
        let left = *users.keys().nth(leaves.index(users.len())).expect("there is one");
        fewer.remove(left);
        if let (Some(with), Some(without)) = (gids(&file(&users, &given)), gids(&file(&fewer, &given))) {
            for (group, gid) in &without {
                prop_assert_eq!(with.get(group).or(Some(gid)), Some(gid), "{}", group);
            }
        }
    }
}

#[test]
fn a_gid_of_the_file_counts() {
    let users = Users::from([("ada", (2001, vec!["physics", "beta"])), ("bob", (2002, vec!["team355"]))]);
    assert_eq!(gids(&file(&users, &[])), None);
    let all = gids(&file(&users, &[("team355", 3000), ("empty", 3001)])).expect("every gid is unique");
    let wanted = [
        ("ada", 2001),
        ("beta", 40_511),
        ("bob", 2002),
        ("empty", 3001),
        ("physics", 52_250),
        ("team355", 3000),
    ];
    assert_eq!(all, wanted.map(|(name, gid)| (name.to_owned(), gid)).into());
}

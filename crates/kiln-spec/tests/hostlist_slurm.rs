//! Compares hostlists with the real Slurm's. Needs `scontrol` (Debian: slurm-client) in PATH.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use kiln_spec::hostlist::{expand, fold, sort};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// `scontrol` wants a configuration even for work that needs none.
static SLURM_CONF: LazyLock<&Path> = LazyLock::new(|| {
    let file = Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/hostlists-slurm.conf"));
    let text = "ClusterName=t\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=n1\n";
    std::fs::write(file, text).expect("a file");
    file
});

fn scontrol(what: &str, list: &str) -> String {
    let output = Command::new("scontrol")
        .args(["show", what, list])
        .env("SLURM_CONF", *SLURM_CONF)
        .output()
        .expect("scontrol must be installed for these tests");
    assert!(output.status.success(), "{list}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
}

/// `7`, `07`, `3-12`, `008-11`
fn range() -> impl Strategy<Value = String> {
    (0..1200_u32, 0..15_u32, 0..5_usize, any::<bool>()).prop_map(|(low, more, width, pad_high)| {
        let high_width = if pad_high { width } else { 0 };
        if more == 0 {
            format!("{low:0width$}")
        } else {
            format!("{low:0width$}-{:0high_width$}", low + more)
        }
    })
}

fn bracket() -> impl Strategy<Value = String> {
    prop::collection::vec(range(), 1..4).prop_map(|ranges| format!("[{}]", ranges.join(",")))
}

fn item() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,3}(-[a-z0-9]{1,4})?",
        ("[a-z]{1,2}-?", bracket()).prop_map(|(text, bracket)| text + &bracket),
        prop::collection::vec(("[a-z]{1,2}[0-9]?", bracket()), 2..4)
            .prop_map(|parts| parts.into_iter().map(|(text, bracket)| text + &bracket).collect()),
    ]
}

fn list() -> impl Strategy<Value = String> {
    prop::collection::vec(item(), 1..5).prop_map(|items| items.join(","))
}

/// Few prefixes and numbers, so that neighbours, gaps and paddings meet often.
fn name() -> impl Strategy<Value = String> {
    ("(n|x|a1b|login-)", 0..25_u32, 0..4_usize).prop_map(|(prefix, n, width)| format!("{prefix}{n:0width$}"))
}

/// Slurm's own sorting is not consistent when paddings are mixed, so each prefix has one width here.
fn evenly_padded_name() -> impl Strategy<Value = String> {
    (prop::sample::select(vec![("n", 0), ("x", 2), ("a2b", 3), ("a10b", 0), ("login-", 0)]), 0..200_u32)
        .prop_map(|((prefix, width), n)| format!("{prefix}{n:0width$}"))
}

proptest! {
    #![proptest_config(Config { cases: 512, failure_persistence: None, ..Config::default() })]

    #[test]
    fn expands_like_slurm(list in list()) {
        let ours = expand(&list).expect("valid");
        prop_assert_eq!(ours.join("\n"), scontrol("hostnames", &list));
    }

    #[test]
    fn folds_like_slurm(names in prop::collection::vec(name(), 1..40)) {
        prop_assert_eq!(fold(&names), scontrol("hostlist", &names.join(",")));
    }

    #[test]
    fn sorts_like_slurm(names in prop::collection::hash_set(evenly_padded_name(), 1..40)) {
        let mut names: Vec<String> = names.into_iter().collect();
        let theirs = scontrol("hostlistsorted", &names.join(","));
        sort(&mut names);
        prop_assert_eq!(fold(&names), theirs);
    }

    #[test]
    fn slurm_reads_what_we_fold(names in prop::collection::vec(name(), 1..40)) {
        let folded = fold(&names);
        prop_assert_eq!(&expand(&folded).expect("valid"), &names);
        prop_assert_eq!(scontrol("hostnames", &folded), names.join("\n"));
    }

    #[test]
    fn no_input_panics(list in "[n1\\-\\[\\], :é]{0,20}") {
        if let Err(error) = expand(&list) {
            prop_assert!(list.get(error.span).is_some());
        }
    }
}

#[test]
fn slurm_refuses_these_too() {
    for list in ["n[3-1]", "n[]", "n[[1-2]]", "n[1-65537]", "n[1-2]x", "n[1-9:2]"] {
        assert!(expand(list).is_err(), "{list}");
        assert_eq!(scontrol("hostnames", list), "", "{list}");
    }
}

/// The lists that are refused although Slurm takes them: it makes names of them that nobody meant.
#[test]
fn slurm_mangles_these() {
    for (list, mangled) in [("n[1-2", "n]"), ("n1,,n2", "n1\nn2"), ("n1 n2", "n1\nn2")] {
        assert!(expand(list).is_err(), "{list}");
        assert_eq!(scontrol("hostnames", list), mangled, "{list}");
    }
}

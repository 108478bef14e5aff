use super::expand;

#[track_caller]
fn error(list: &str) -> String {
    let error = expand(list).expect_err(list);
    format!("`{}` {}; expected {}", &list[error.span.clone()], error.message, error.expected)
}

#[test]
fn expands_like_slurm() {
    for (list, names) in [
        ("n1", "n1"),
        ("n[1-3,5],login-0", "n1 n2 n3 n5 login-0"),
        ("n[001-3]", "n001 n002 n003"),
        ("n[09-11]", "n09 n10 n11"),
        ("a[1-2]b[3-4]", "a1b3 a1b4 a2b3 a2b4"),
        ("a[1-2]b[1-2]c[1-2]", "a1b1c1 a1b1c2 a2b1c1 a2b1c2 a1b2c1 a1b2c2 a2b2c1 a2b2c2"),
        ("[1-2]", "1 2"),
    ] {
        assert_eq!(expand(list).expect(list).join(" "), names);
    }
}

#[test]
fn what_slurm_mangles_is_an_error() {
    let cases = [
        "",
        "n1,,n2",
        ",n1",
        "n1,",
        "n[]",
        "n[1-3",
        "n[1-]",
        "n[-1]",
        "n[1 - 2]",
        "n[3-1]",
        "n[1-9:2]",
        "n[1-2-3]",
        "n[[1-2]]",
        "n1]",
        "n[1-2]x",
        "n[1-65537]",
        "n[1,,2]",
        "n[a-b]",
        "n 1",
        "n[1],é2",
        "n[1234567890123456789]",
        "a[1-65536]b[1-65536]",
        "n[1-2]]",
        "n[1,n2",
    ];
    let shown: Vec<String> = cases.iter().map(|list| format!("{list:22} {}", error(list))).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn the_largest_range_is_allowed() {
    assert_eq!(expand("n[1-65536]").expect("valid").len(), 65_536);
}

#[test]
fn a_hundred_thousand_nodes_round_trip() {
    let list = "n[00001-50000],m[00001-50000]";
    let names = expand(list).expect("valid");
    assert_eq!(names.len(), 100_000);
    assert_eq!(super::super::fold(&names), list);
}

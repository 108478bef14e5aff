//! Large clusters must stay quick to read. The limits are wide enough for a debug build, and count this thread's own
//! time, so that others at work on the machine do not matter; they are there to catch work that grows with the
//! square of the nodes.

use std::fmt::Write as _;
use std::time::Duration;

use kiln_spec::{hostlist, parse};

#[track_caller]
fn quick<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = time_on_processor();
    let result = work();
    let took = time_on_processor().saturating_sub(start);
    println!("{what}: {took:?}");
    assert!(took < Duration::from_secs(5), "{what} took {took:?}");
    result
}

/// Of this thread.
fn time_on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanoseconds = text.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}

#[test]
fn ten_thousand_nodes() {
    let mut text =
        String::from("[cluster]\nname = \"big\"\n[cloud]\nkind = \"local\"\nsubnet = \"10.0.0.0/16\"\n");
    for group in 0..100 {
        let _ = writeln!(text, "[compute.g{group}]\nnodes = \"g{group}-[00-99]\"");
        for node in 0..100 {
            let _ = writeln!(text, "override.g{group}-{node:02}.address = \"10.0.{}.{node}\"", group + 1);
        }
    }
    let spec = quick("parse 10,000 nodes with an override each", || parse(&text, "cluster.toml"));
    let spec = spec.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(spec.nodes().count(), 10_001);
    let plain = "[cluster]\nname = \"big\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a-[0-9999]\"\n";
    let spec = quick("parse 10,000 nodes in one group", || parse(plain, "cluster.toml"));
    assert_eq!(spec.unwrap_or_else(|e| panic!("{e}")).nodes().count(), 10_001);
}

#[test]
fn ten_thousand_errors() {
    let mut text =
        String::from("[cluster]\nname = \"big\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a-0\"\n");
    for node in 0..10_000 {
        let _ = writeln!(text, "kye{node} = 1");
    }
    let errors = quick("find 10,000 errors", || parse(&text, "cluster.toml")).expect_err("the file is wrong");
    assert_eq!(errors.len(), 10_000);
    assert!(quick("show them", || errors.to_string()).ends_with("10000 errors (the first 50 are shown)"));
}

#[test]
fn a_hundred_thousand_hosts() {
    let names = quick("expand", || hostlist::expand("n[000001-050000],m[000001-050000]")).expect("valid");
    assert_eq!(names.len(), 100_000);
    assert_eq!(quick("fold", || hostlist::fold(&names)), "n[000001-050000],m[000001-050000]");
    let gaps: Vec<&String> = names.iter().step_by(2).collect();
    assert_eq!(
        quick("fold with gaps", || hostlist::expand(&hostlist::fold(&gaps))).expect("valid").len(),
        50_000
    );
    let mut shuffled: Vec<&String> = names.iter().step_by(2).chain(names.iter().skip(1).step_by(2)).collect();
    quick("sort", || hostlist::sort(&mut shuffled));
    assert!(hostlist::fold(&shuffled).starts_with("m["));
}

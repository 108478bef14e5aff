//! Which cores, memory and devices of a node are which job's: what `scontrol show job --details` says of jobs that have it.

use kiln_spec::hostlist;

use crate::measures::numbers;
use crate::oneliner::field;

/// More than any node has; what a line says beyond is not read.
const MOST: usize = 4096;

/// What a node has, and which jobs have what of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sharing {
    pub cpus: u32,
    pub memory_mib: u64,
    pub devices: Vec<Devices>,
    pub shares: Vec<Share>,
}

/// What one job has of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// As users know it: `17`, or `17_3` of an array.
    pub job: String,
    pub user: String,
    /// As Slurm numbers the node's CPUs, from 0.
    pub cpus: Vec<u32>,
    pub memory_mib: u64,
    pub devices: Vec<Devices>,
}

/// Generic resources of one kind, such as GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devices {
    /// `gpu`.
    pub name: String,
    /// `a100`, where Slurm tells them apart.
    pub kind: Option<String>,
    pub count: u32,
    /// From 0; empty where they are only counted.
    pub indexes: Vec<u32>,
}

impl Devices {
    /// Of a list such as `gpu:a100:2(IDX:0-1),shard:4`, or a node's `gpu:a100:2(S:0-1)`.
    pub fn parse(list: &str) -> Vec<Devices> {
        outside_brackets(list).filter_map(Devices::parse_one).collect()
    }

    fn parse_one(text: &str) -> Option<Devices> {
        let (what, detail) = text.split_once('(').unwrap_or((text, ""));
        let mut words = what.split(':');
        let name = words.next().filter(|name| !name.is_empty() && *name != "(null)")?.to_string();
        let rest: Vec<&str> = words.collect();
        let count = rest.last().and_then(|count| count.parse().ok());
        let kind = rest.first().filter(|kind| kind.parse::<u32>().is_err()).map(|kind| (*kind).to_string());
        let indexes = detail.trim_end_matches(')').strip_prefix("IDX:").and_then(|list| numbers(list, MOST));
        Some(Devices { name, kind, count: count.unwrap_or(1), indexes: indexes.unwrap_or_default() })
    }
}

/// The entries of a list whose commas in brackets are none of its own.
fn outside_brackets(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    list.split(move |c: char| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .filter(|entry| !entry.is_empty())
}

/// Reads what `scontrol show job --details --oneliner` prints of a job, by Slurm's own number: for some it prints all members of an
/// array. A name may have the end of a line in it. `None`: it has nothing of the node.
pub fn share(text: &str, number: &str, node: &str) -> Option<Share> {
    let begins = |at: &usize| *at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n');
    let own = format!("JobId={number} ");
    let from = text.match_indices(&own).map(|(at, _)| at).find(begins)?;
    let line = text[from..].split("\nJobId=").next()?;
    let state = field(line, "JobState")?;
    if matches!(state, "PENDING" | "COMPLETED" | "CANCELLED" | "FAILED" | "TIMEOUT" | "NODE_FAIL") {
        return None;
    }
    let job = match (field(line, "ArrayJobId"), field(line, "ArrayTaskId"), field(line, "HetJobId")) {
        (Some(array), Some(member), _) => format!("{array}_{member}"),
        (.., Some(first)) => format!("{first}+{}", field(line, "HetJobOffset").unwrap_or("0")),
        _ => number.to_string(),
    };
    let mut share = Share {
        job,
        user: field(line, "UserId")?.split('(').next().unwrap_or_default().into(),
        ..Share::default()
    };
    let mut is_here = false;
    let mut found = false;
    // `Nodes=` begins what a job has of some of its nodes, on each of them.
    for word in line.split_ascii_whitespace() {
        match word.split_once('=') {
            Some(("Nodes", list)) => {
                is_here = hostlist::expand(list).is_ok_and(|names| names.iter().any(|name| name == node));
                found |= is_here;
            }
            Some(("CPU_IDs", list)) if is_here => share.cpus = numbers(list, MOST)?,
            Some(("Mem", size)) if is_here => share.memory_mib = size.parse().unwrap_or(0),
            Some(("GRES", list)) if is_here => share.devices = Devices::parse(list),
            // What comes behind is of the whole job.
            Some(("MinCPUsNode", _)) if found => break,
            _ => {}
        }
    }
    found.then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(name: &str, kind: Option<&str>, count: u32, indexes: &[u32]) -> Devices {
        Devices { name: name.into(), kind: kind.map(String::from), count, indexes: indexes.into() }
    }

    #[test]
    fn what_a_job_has_of_a_node_is_read() {
        for (release, one, wide) in [
            (
                "24.11",
                include_str!("captured/24.11-share.txt"),
                include_str!("captured/24.11-share-wide.txt"),
            ),
            (
                "22.05",
                include_str!("captured/22.05-share.txt"),
                include_str!("captured/22.05-share-wide.txt"),
            ),
        ] {
            let seen = share(one, "1", "standard-0").unwrap_or_else(|| panic!("{release}"));
            assert_eq!(
                (seen.job.as_str(), seen.user.as_str(), seen.memory_mib),
                ("1", "demo", 500),
                "{release}"
            );
            assert_eq!(seen.cpus, [0], "{release}");
            assert_eq!(seen.devices, [devices("gpu", Some("a100"), 1, &[0])], "{release}");
            assert_eq!(share(one, "1", "standard-1"), None, "{release}");
            assert_eq!(share(one, "2", "standard-0"), None, "{release}");
            for node in ["standard-0", "standard-1"] {
                let seen = share(wide, "12", node).unwrap_or_else(|| panic!("{release}"));
                assert_eq!(
                    (seen.cpus.len(), seen.memory_mib, seen.devices),
                    (1, 200, Vec::new()),
                    "{release}"
                );
            }
        }
    }

    #[test]
    fn members_and_parts_have_the_names_that_users_know() {
        let rest = "UserId=ann(7) JobState=RUNNING NodeList=n-[0-1] JOB_GRES=(null)   Nodes=n-0 CPU_IDs=0-1,4 Mem=0 GRES= \
                    Nodes=n-1 CPU_IDs=2 Mem=10 GRES= MinCPUsNode=1 Comment=Nodes=n-0";
        let done = rest.replace("RUNNING", "COMPLETED");
        let text = format!(
            "JobId=17 ArrayJobId=6 ArrayTaskId=1 JobName=a {done}\nJobId=6 ArrayJobId=6 ArrayTaskId=3 JobName=a\nb {rest}\n"
        );
        let seen = share(&text, "6", "n-0").unwrap();
        assert_eq!((seen.job.as_str(), seen.cpus), ("6_3", vec![0, 1, 4]));
        assert_eq!(share(&text, "6", "n-1").unwrap().cpus, [2]);
        assert_eq!(share(&text, "17", "n-0"), None);
        let parts = format!("JobId=8 HetJobId=7 HetJobOffset=1 JobName=h HetJobIdSet=7-8 {rest}");
        assert_eq!(share(&parts, "8", "n-0").unwrap().job, "7+1");
    }

    #[test]
    fn a_name_makes_no_other_job() {
        let forged = "JobId=13 JobName=x\nJobId=1 JobName=y UserId=root(0) JobState=RUNNING Nodes=n-0 CPU_IDs=0 Mem=1 GRES= \
                      UserId=ann(7) JobState=RUNNING Nodes=n-1 CPU_IDs=0 Mem=1 GRES= MinCPUsNode=1";
        assert_eq!(share(forged, "13", "n-0"), None);
    }

    #[test]
    fn devices_are_read() {
        assert_eq!(
            Devices::parse("gpu:a100:2(IDX:0,3),shard:4(CNT:4)"),
            [devices("gpu", Some("a100"), 2, &[0, 3]), devices("shard", None, 4, &[])]
        );
        assert_eq!(Devices::parse("gpu:a100:2(S:0-1)"), [devices("gpu", Some("a100"), 2, &[])]);
        assert_eq!(Devices::parse("gpu"), [devices("gpu", None, 1, &[])]);
        assert_eq!(Devices::parse("(null)"), []);
        assert_eq!(Devices::parse(""), []);
    }
}

//! Elastic groups: one node that was off, a hundred in one call, one look of the reconciler.

use std::time::Duration;

use crate::lab::{Lab, wait};
use crate::{Row, seconds};

const MANY: usize = 100;

pub fn elastic(lab: &mut Lab) -> Vec<Row> {
    let many = format!("burst-[0-{}]", MANY - 1);
    lab.edit(
        "[compute.extra]\nnodes = \"extra-[0-1]\"\n",
        &format!("[compute.burst]\nnodes = \"{many}\"\nelastic = {{ idle = \"1h\" }}\nflavor = \"tiny\"\n"),
    );
    lab.kiln(&["up", "--yes"]);
    let mut rows = one_node(lab);
    rows.extend(many_nodes(lab));
    rows
}

/// Times by Slurm's clock, in seconds.
fn started_after(lab: &mut Lab, id: &str) -> Duration {
    wait("the job is over", || lab.job(id, "JobState") == "COMPLETED");
    let time = |field: &str| {
        let text = lab.job(id, field);
        lab.on("control", &["date", "+%s", "--date", &text]).parse::<u64>().expect("seconds")
    };
    Duration::from_secs(time("StartTime") - time("SubmitTime"))
}

/// As a batch job, which waits for Slurm's own sweep, and with `srun`, which does not.
fn one_node(lab: &mut Lab) -> Vec<Row> {
    let ((), interactive) = crate::timed(|| {
        lab.as_user("login-0", "srun --partition=burst --nodes=1 --nodelist=burst-0 true");
    });
    let id = lab.submit("--partition=burst --nodes=1 --nodelist=burst-1 --output=/dev/null", "true");
    let batch = started_after(lab, &id);
    vec![
        Row {
            what: "srun on a node that was off, to its end".into(),
            value: seconds(interactive),
            beside: String::new(),
        },
        Row {
            what: "sbatch to the start on a node that was off".into(),
            value: seconds(batch),
            beside: format!("{} of it until Slurm looks again", seconds(batch.saturating_sub(interactive))),
        },
    ]
}

fn many_nodes(lab: &mut Lab) -> Vec<Row> {
    let since = format!("@{}", lab.on("control", &["date", "+%s"]));
    let nodes = MANY - 2;
    let id = lab.submit(
        &format!("--partition=burst --nodes={nodes} --exclude=burst-0,burst-1 --output=/dev/null"),
        "true",
    );
    let up = |lab: &mut Lab| {
        let states = ["sinfo", "--noheader", "--Node", "--partition=burst", "--format=%t"];
        let text = lab.on("control", &states);
        text.lines().filter(|state| matches!(*state, "idle" | "alloc" | "mix")).count()
    };
    let ((), all_up) = crate::timed(|| {
        while up(lab) < MANY {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let journal = ["journalctl", "--no-pager", "-o", "cat", "-u", "kilnd", "--since", &since];
    let journal = lab.on("control", &journal);
    let calls = journal.lines().filter(|line| line.contains("asking the cloud")).count();
    lab.on("control", &["scancel", &id]);
    vec![Row {
        what: format!("{nodes} nodes resumed in one call, until all serve"),
        value: seconds(all_up),
        beside: format!("{calls} calls to create them"),
    }]
}

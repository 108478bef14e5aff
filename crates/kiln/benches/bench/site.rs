//! The example cluster with everything around Slurm, beside the same nodes without it.

use std::time::Duration;

use crate::lab::{Lab, wait};
use crate::{Row, seconds, timed};

const AROUND_SLURM: &str = "
[directory]
kind = \"server\"

[account.astro]
members = [\"demo\"]
limits = { GrpTRES = \"cpu=64\" }

[qos.normal]
limits = { MaxWallDurationPerJob = \"1-00:00:00\" }

[health]
every = \"2m\"

[monitoring]
retention = \"30d\"

[slurm]
rest = true
";

pub fn site(lab: &mut Lab) -> Vec<Row> {
    let plain = lab.example();
    let whole = format!("{plain}{AROUND_SLURM}");
    let (without, _) = raise(lab, &plain);
    lab.kiln(&["destroy", "--yes"]);
    let (with, again) = raise(lab, &whole);
    let row = |what: &str, value: Duration, beside: String| Row {
        what: what.into(),
        value: seconds(value),
        beside,
    };
    let beside =
        format!("without all that: {}; {}; wanted: 25 s or less", seconds(without), times(with, without));
    vec![
        row("kiln up of everything around Slurm, to a two-node job", with, beside),
        row("kiln up again, nothing to change", again, String::new()),
        user_add(lab),
    ]
}

/// With its image there: how long to the first job, and how long when nothing is left to do.
fn raise(lab: &Lab, file: &str) -> (Duration, Duration) {
    lab.write_file(file);
    lab.kiln(&["image", "build"]);
    let ((), first_job) = timed(|| {
        lab.kiln(&["up"]);
        let output = lab.as_user("login-0", "srun --nodes=2 hostname");
        assert_eq!(output.lines().count(), 2, "{output}");
    });
    let (_, again) = timed(|| lab.kiln(&["up"]));
    (first_job, again)
}

/// Until each node knows her, whoever asks.
fn user_add(lab: &Lab) -> Row {
    let hosts = lab.hosts();
    let nodes: Vec<&str> = hosts.iter().filter_map(|host| host["name"].as_str()).collect();
    let (_, login) = timed(|| lab.kiln(&["ssh", "login-0", "true"]));
    let key = lab.path("user_key.pub").display().to_string();
    let ((), add) = timed(|| {
        lab.kiln(&["user", "add", "ada", "--key", &key, "--account", "astro"]);
        for node in &nodes {
            wait(&format!("{node} knows her"), || {
                lab.try_on(node, &["getent", "passwd", "ada"]).status.success()
            });
        }
    });
    Row {
        what: format!("kiln user add, until all {} nodes know her", nodes.len()),
        value: seconds(add),
        beside: format!(
            "a login on one node: {}; {}; wanted: 2 s or less",
            seconds(login),
            times(add, login)
        ),
    }
}

fn times(one: Duration, other: Duration) -> String {
    format!("{:.1} times as long", one.as_secs_f64() / other.as_secs_f64())
}

//! What comes before what, and what is restarted for what.

use super::*;

#[test]
fn ids_are_unique_and_watched_ids_exist() {
    for node in ["control", "login-0", "standard-0"] {
        assert_ordered(&bundle(node));
    }
}

pub fn assert_ordered(bundle: &Bundle) {
    let node = &bundle.node;
    let ids: Vec<String> = bundle.resources.iter().map(Resource::id).collect();
    let mut unique = ids.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "{node}: {ids:?}");
    for (at, resource) in bundle.resources.iter().enumerate() {
        let watched: Vec<&String> = match resource {
            Resource::Service(s) => s.restart_on.iter().chain(&s.reload_on).chain(&s.needs).collect(),
            Resource::Command(c) => c.when_changed.iter().chain(&c.needs).collect(),
            Resource::File(f) => f.needs.iter().collect(),
            _ => continue,
        };
        for id in watched.into_iter().filter(|id| *id != EVERYTHING) {
            let found = ids.iter().position(|i| i == id);
            assert!(found.is_some_and(|found| found < at), "{node}: {} watches {id}", resource.id());
        }
    }
}

#[test]
fn a_plain_parameter_does_not_restart_slurmctld_but_a_new_node_does() {
    let restart = |file: &str| {
        let spec = kiln_spec::parse(file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 8)), secrets());
        let bundle = site(&spec, &inventory, &secrets).bundle("control", &keys("control")).unwrap();
        let is_it = |r: &Resource| r.id() == "file:/etc/kiln/slurmctld-restart";
        bundle.resources.into_iter().find(is_it).unwrap()
    };
    let before = restart(FILE);
    assert_eq!(before, restart(&FILE.replace("SlurmdTimeout = 60", "SlurmdTimeout = 90")));
    assert_ne!(before, restart(&FILE.replace("standard-[0-1]", "standard-[0-2]")));
    assert_ne!(before, restart(&FILE.replace("SlurmdTimeout = 60", "SelectType = \"select/linear\"")));
}

/// Without their volume they would start on empty data, and save those over the real ones when it comes.
#[test]
fn what_lives_on_the_state_volume_starts_and_restarts_with_it() {
    let of = |file: &str| {
        let spec = kiln_spec::parse(file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 8)), secrets());
        site(&spec, &inventory, &secrets).bundle("control", &keys("control")).unwrap().resources
    };
    let residents = |resources: &[Resource]| -> Vec<String> {
        let on_mount =
            |s: &&kiln_wire::bundle::Service| s.restart_on.contains(&"mount:/var/lib/state".into());
        let services =
            resources.iter().filter_map(|r| if let Resource::Service(s) = r { Some(s) } else { None });
        services.filter(on_mount).map(|s| s.unit.clone()).collect()
    };
    let control = of(FILE);
    let expected = ["mariadb.service", "slurmdbd.service", "slurmctld.service", "kilnd.service"];
    assert_eq!(residents(&control), expected);
    for unit in expected {
        let paths =
            [format!("/etc/systemd/system/{unit}.d/kiln.conf"), format!("/etc/systemd/system/{unit}")];
        let waits = control.iter().any(|r| {
            matches!(r, Resource::File(f)
                if paths.contains(&f.path) && f.content.contains("\nRequiresMountsFor=/var/lib/state\n"))
        });
        assert!(waits, "{unit}");
    }
    assert!(residents(&of(&format!("{FILE}\n[volumes]\nstate = \"none\"\n"))).is_empty());
}

/// A database or a queue that is not there yet would be made, empty.
#[test]
fn slurm_does_not_start_from_a_restore_that_was_cut_off() {
    let control = bundle("control");
    let refusal = format!("AssertPathExists=!{}\n", kiln_wire::paths::RESTORING);
    for unit in ["slurmdbd.service", "slurmctld.service"] {
        let path = format!("/etc/systemd/system/{unit}.d/kiln.conf");
        let of_unit = control.resources.iter().find_map(|resource| match resource {
            Resource::File(file) if file.path == path => Some(&file.content),
            _ => None,
        });
        let lines: Vec<&str> = of_unit.unwrap().split_inclusive('\n').collect();
        let section =
            lines.iter().take_while(|line| **line != refusal).filter(|line| line.starts_with('[')).last();
        assert!(lines.contains(&refusal.as_str()) && section == Some(&"[Unit]\n"), "{unit}: {lines:?}");
    }
}

#[test]
fn a_slurm_conf_that_is_refused_leaves_slurmctld_and_its_restart_alone() {
    let control = bundle("control");
    let conf = "file:/etc/slurm/slurm.conf".to_string();
    let needs = |id: &str| match control.resources.iter().find(|r| r.id() == id) {
        Some(Resource::File(file)) => file.needs.contains(&conf),
        Some(Resource::Service(service)) => service.needs.contains(&conf),
        _ => false,
    };
    assert!(needs("file:/etc/kiln/slurmctld-restart") && needs("service:slurmctld.service"));
    // Else kilnd would take nodes for removed ones that Slurm still gives jobs to.
    assert!(needs("file:/etc/kiln/fleet.json") && needs("file:/etc/kiln/nodes"));
    let at = |id: &str| control.resources.iter().position(|r| r.id() == id).unwrap();
    assert!(at("command:slurm reconfigured") < at("file:/etc/kiln/fleet.json"));
    assert!(at("file:/etc/kiln/fleet.json") < at("service:kilnd.service"));
}

/// Numbers that packages give change from image to image, and files on volumes belong to numbers.
#[test]
fn users_of_services_have_fixed_numbers_and_come_before_their_files() {
    for node in ["control", "login-0", "standard-0"] {
        let mut made = vec!["root".to_string()];
        for resource in bundle(node).resources {
            let owner = match resource {
                Resource::User(user) => {
                    if user.system {
                        let fixed = kiln_site::ServiceUser::ALL.iter().find(|fixed| fixed.name == user.name);
                        assert_eq!(Some((user.uid, user.gid)), fixed.map(|fixed| (fixed.id, fixed.id)));
                    }
                    made.push(user.name);
                    continue;
                }
                Resource::File(file) => file.owner,
                Resource::Directory(directory) => directory.owner,
                _ => continue,
            };
            assert!(made.contains(&owner), "{owner} on {node}");
        }
    }
}

#[test]
fn slurmd_comes_last_and_needs_all_the_rest() {
    let compute = bundle("standard-0");
    let Some(Resource::Service(slurmd)) = compute.resources.last() else { panic!("not a service") };
    assert_eq!((slurmd.unit.as_str(), slurmd.enabled), ("slurmd.service", false));
    assert!(slurmd.needs.contains(&EVERYTHING.into()));
}

/// gres.conf and the like: there before slurm.conf is read, and a change of one reaches every daemon that reads it.
#[test]
fn slurms_other_files_come_first_and_are_answered() {
    let of = |files: &[(&str, &str)], node: &str| {
        let text = files.iter().fold(FILE.to_string(), |text, (name, content)| {
            format!("{text}[[role.control.file]]\npath = \"/etc/slurm/{name}\"\ncontent = \"{content}\"\n")
        });
        let spec = kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 8)), secrets());
        site(&spec, &inventory, &secrets).bundle(node, &keys(node)).unwrap().resources
    };
    let place = |resources: &[Resource], id: &str| resources.iter().position(|r| r.id() == id).unwrap();
    let names = ["gres.conf", "cgroup.conf", "job_submit.lua"];
    let control = of(&names.map(|name| (name, "site")), "control");
    let Resource::Service(slurmctld) = &control[place(&control, "service:slurmctld.service")] else {
        panic!()
    };
    let Resource::Command(tell) = &control[place(&control, "command:slurm reconfigured")] else { panic!() };
    for name in names {
        let id = format!("file:/etc/slurm/{name}");
        let at = place(&control, &id);
        assert!(at < place(&control, "file:/etc/slurm/slurm.conf"), "{name}");
        assert!(matches!(&control[at], Resource::File(file) if file.content == "site"), "{name}");
        assert_eq!(control.iter().filter(|r| r.id() == id).count(), 1);
        assert_eq!(slurmctld.restart_on.contains(&id), name != "job_submit.lua", "{name}");
        assert!(tell.when_changed.contains(&id), "{name}");
    }
    // One that is taken out of the file again is a change of its directory.
    let gone = "directory:/etc/slurm".to_string();
    assert!(slurmctld.restart_on.contains(&gone) && tell.when_changed.contains(&gone));

    let marker = |files: &[(&str, &str)]| {
        let compute = of(files, "standard-0");
        compute[place(&compute, "file:/etc/kiln/slurmd-restart")].clone()
    };
    assert_ne!(marker(&[]), marker(&[("gres.conf", "a")]));
    assert_ne!(marker(&[("gres.conf", "a")]), marker(&[("gres.conf", "b")]));
    assert_eq!(marker(&[]), marker(&[("job_submit.lua", "a")]), "slurmd does not read it");
    let end = |files: &[(&str, &str)]| {
        let compute = of(files, "standard-0");
        compute[compute.len() - 2..].iter().map(Resource::id).collect::<Vec<_>>()
    };
    let around = ["service:slurmd.service", "command:slurmd reports the devices"];
    assert_eq!(end(&[("gres.conf", "a")]), around);
    assert_eq!(end(&[("job_submit.lua", "a")]), end(&[]));
}

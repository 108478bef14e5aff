//! What the site function writes, as administrators will read it.

#![allow(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::collections::BTreeMap;

use kiln_site::{Inventory, NodeFacts, NodeKeys, Secret, Secrets, services, site};
use kiln_slurm::Release;
use kiln_spec::Spec;
use kiln_wire::bundle::{Bundle, EVERYTHING, Resource};

const FILE: &str = r#"
[cluster]
name = "demo"
[cloud]
kind = "local"
[login.login]
nodes = "login-0"
[compute.standard]
nodes = "standard-[0-1]"
features = ["cpu"]
[compute.extra]
nodes = "extra-[0-1]"
node_config = { RealMemory = 500 }
[compute.extra.override."extra-1"]
features = ["big"]
[slurm.config]
SchedulerParameters = ["bf_continue", "defer"]
SlurmctldParameters = ["idle_on_node_suspend"]
SlurmdTimeout = 60
MpiDefault = false
[user.alice]
uid = 2001
groups = ["physics", "video"]
sudo = true
[role.compute]
commands = ["true"]
[[role.compute.file]]
path = "/etc/motd"
content = "hello\n"
"#;

fn spec() -> Spec {
    kiln_spec::parse(FILE, "cluster.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn inventory(spec: &Spec, release: Release) -> Inventory {
    let facts = |at: usize| NodeFacts {
        address: [10, 0, 0, 10 + u8::try_from(at).unwrap()].into(),
        cpus: 2,
        topology: None,
        memory_mib: 2000,
        real_memory_mib: 1900,
        features: Vec::new(),
        ssh_host_public: "ssh-ed25519 BBBB".into(),
    };
    let nodes: BTreeMap<_, _> =
        spec.nodes().enumerate().map(|(at, n)| (n.name.to_string(), facts(at))).collect();
    let architecture = "x86_64".into();
    Inventory { nodes, release, architecture, kiln: "binary".into(), backup_volume: true, exports: None }
}

fn secrets() -> Secrets {
    let value = |secret: &Secret| match secret.name {
        "munge-key" => Ok("TVVOR0U=".into()),
        "database-password" => Ok("DATABASE-SECRET".into()),
        other => Err(format!("{other} is not for nodes")),
    };
    let text = "[cluster]\nname = \"x\"\n[cloud]\nkind = \"local\"\n[compute.x]\nnodes = \"x1\"\n\
                [image.default]\nsource = \"trixie\"\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap();
    Secrets::read(&spec, value, "{ TOKEN-SECRET }".into(), "ssh-ed25519 AAAA kiln".into()).unwrap()
}

fn keys(node: &str) -> NodeKeys {
    NodeKeys {
        seal_key: format!("SEAL-SECRET-{node}").into(),
        seal_recipient: "kiln-seal-0".into(),
        sender_key: "kiln-seal-1".into(),
        ssh_host_key: format!("HOST-SECRET-{node}").into(),
        ssh_host_public: "ssh-ed25519 BBBB".into(),
    }
}

fn bundle(node: &str) -> Bundle {
    let spec = spec();
    let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 8)), secrets());
    site(&spec, &inventory, &secrets).bundle(node, &keys(node)).unwrap()
}

#[test]
fn a_node_of_another_family_has_its_paths() {
    let image = "[image.default]\nprebuilt = \"r\"\nsystem = \"rocky9\"\n";
    let spec = kiln_spec::parse(&format!("{FILE}{image}"), "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 9)), secrets());
    let site = site(&spec, &inventory, &secrets);
    let ids = |node: &str| {
        let bundle = site.bundle(node, &keys(node)).unwrap();
        bundle.resources.iter().map(Resource::id).collect::<Vec<_>>()
    };
    let (control, compute) = (ids("control"), ids("standard-0"));
    for (has, id) in [
        (&control, "file:/etc/my.cnf.d/zz-kiln.cnf"),
        (&control, "service:sshd.service"),
        (&compute, "file:/etc/sysconfig/slurmd"),
        (&compute, "file:/etc/locale.conf"),
        (&compute, "file:/etc/pam.d/sshd"),
    ] {
        assert!(has.iter().any(|own| own == id), "{id}: {has:?}");
    }
    assert!(
        !control.iter().chain(&compute).any(|id| id.contains("/etc/default") || id.contains("/etc/mysql"))
    );
}

#[test]
fn slurm_conf_with_elastic_groups() {
    let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.fixed]\nnodes = \"fixed-[0-1]\"\n\
        [compute.burst]\nnodes = \"burst-[0-9]\"\nzones = [\"north\", \"south\"]\nelastic = { idle = \"5m\", min = 2 }\n\
        [limits.large]\nzones = { ad1 = 3, ad2 = 1 }\nfeatures = [\"big\"]\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap();
    let inventory = inventory(&spec, Release::new(22, 5, 8));
    insta::assert_snapshot!(site(&spec, &inventory, &secrets()).slurm_conf());
}

/// Nothing of a database is on the control node, and nothing changes as long as the state belongs to other accounts.
#[test]
fn a_slurmdbd_of_the_site() {
    let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.fixed]\nnodes = \"fixed-[0-1]\"\n\
        [accounting]\nhost = \"dbd.example.org\"\nport = 7000\nbackup_host = \"dbd2.example.org\"\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap();
    let (inventory, secrets) = (inventory(&spec, Release::new(24, 11, 5)), secrets());
    let site = site(&spec, &inventory, &secrets);
    let lines: Vec<&str> = site.slurm_conf().lines().filter(|line| line.starts_with("Accounting")).collect();
    assert_eq!(
        lines,
        [
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=dbd.example.org",
            "AccountingStoragePort=7000",
            "AccountingStorageBackupHost=dbd2.example.org",
        ]
    );
    let bundle = site.bundle("control", &keys("control")).unwrap();
    let json = serde_json::to_string(&bundle).unwrap();
    assert!(!json.contains("DATABASE-SECRET") && !json.contains("mariadb-install-db"));
    let ids: Vec<String> = bundle.resources.iter().map(Resource::id).collect();
    assert!(
        !ids.iter().any(|id| id.starts_with("service:mariadb") || id.starts_with("service:slurmdbd")),
        "{ids:?}"
    );
    for id in ["file:/etc/slurm/slurm.conf", "file:/etc/munge/munge.key"] {
        let needs = bundle.resources.iter().find_map(|resource| match resource {
            Resource::File(file) if resource.id() == id => Some(&file.needs),
            _ => None,
        });
        assert!(
            needs.is_some_and(|needs| needs.contains(&"command:accounting is where it was".into())),
            "{id}"
        );
    }
}

/// What the cloud says of a flavor comes after the file's own, once, in words that Slurm takes.
#[test]
fn node_lines_with_features_of_flavors() {
    let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"openstack\"\nsubnet = \"10.0.0.0/24\"\n\
        [image.default]\nprebuilt = \"fat\"\n[control]\nflavor = \"small\"\n\
        [compute.fixed]\nnodes = \"fixed-[0-2]\"\nflavor = \"gpu 1\"\nfeatures = [\"big\", \"vgpu\"]\n\
        [compute.burst]\nnodes = \"burst-[0-9]\"\nflavor = \"gpu 1\"\nzones = [\"north\"]\nelastic = {}\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let mut inventory = inventory(&spec, Release::new(24, 11, 5));
    let features = ["shape=gpu 1", "arch=aarch64", "pci=a100,sxm", "trait=CUSTOM_INFINIBAND", "vgpu"];
    for (_, facts) in inventory.nodes.iter_mut().filter(|(name, _)| *name != "fixed-2") {
        facts.features = features.map(String::from).to_vec();
    }
    let secrets = secrets();
    let site = site(&spec, &inventory, &secrets);
    let lines: Vec<&str> = site.slurm_conf().lines().filter(|line| line.starts_with("NodeName=")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    NodeName=fixed-[0-1] CPUs=2 RealMemory=1900 Feature=big,vgpu,shape=gpu_1,arch=aarch64,pci=a100_sxm,trait=CUSTOM_INFINIBAND State=UNKNOWN
    NodeName=fixed-2 CPUs=2 RealMemory=1900 Feature=big,vgpu State=UNKNOWN
    NodeName=burst-[0-9] CPUs=2 RealMemory=1900 Feature=shape=gpu_1,zone=north,arch=aarch64,pci=a100_sxm,trait=CUSTOM_INFINIBAND,vgpu State=CLOUD
    ");
}

#[test]
fn slurm_conf_of_22_05() {
    let spec = spec();
    let inventory = inventory(&spec, Release::new(22, 5, 8));
    insta::assert_snapshot!(site(&spec, &inventory, &secrets()).slurm_conf());
}

#[test]
fn releases_differ_only_where_they_must() {
    let spec = spec();
    let (old, new) = (inventory(&spec, Release::new(22, 5, 8)), inventory(&spec, Release::new(24, 11, 5)));
    let secrets = secrets();
    let text = |inventory| site(&spec, inventory, &secrets).slurm_conf().to_string();
    let (old, new) = (text(&old), text(&new));
    let only_old: Vec<&str> = old.lines().filter(|l| !new.lines().any(|n| n == *l)).collect();
    let only_new: Vec<&str> = new.lines().filter(|l| !old.lines().any(|o| o == *l)).collect();
    assert_eq!(only_old, ["CredType=cred/munge"]);
    assert!(only_new.is_empty());
}

#[test]
fn resources_of_every_role() {
    for node in ["control", "login-0", "standard-0"] {
        let ids: Vec<String> = bundle(node).resources.iter().map(Resource::id).collect();
        insta::assert_snapshot!(format!("resources-{node}"), ids.join("\n"));
    }
}

#[test]
fn ids_are_unique_and_watched_ids_exist() {
    for node in ["control", "login-0", "standard-0"] {
        let bundle = bundle(node);
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
}

/// What an image disables, what is stopped before a rebuild and what `status` asks for comes from the services' units.
#[test]
fn a_bundle_runs_just_the_units_of_its_services() {
    for node in ["control", "login-0", "standard-0"] {
        let spec = spec();
        let found = spec.node(node).unwrap();
        let family = kiln_distro::Family::of_image(&spec, found.image);
        let running = bundle(node).resources.into_iter().filter_map(|resource| match resource {
            Resource::Service(service) => Some(service.unit),
            _ => None,
        });
        let checks = services::checks(&spec, found.role, family);
        let asked: Vec<String> = checks.into_iter().flat_map(|check| check.units).collect();
        assert_eq!(running.collect::<Vec<_>>(), asked, "{node}");
    }
}

#[test]
fn secrets_are_marked_and_only_where_they_belong() {
    let secret_words = ["DATABASE-SECRET", "TOKEN-SECRET", "SEAL-SECRET", "HOST-SECRET", "TVVOR0U="];
    for node in ["control", "login-0", "standard-0"] {
        for resource in bundle(node).resources {
            let Resource::File(file) = &resource else { continue };
            let holds = secret_words.iter().any(|word| file.content.contains(word));
            assert_eq!(holds, file.secret, "{node}: {}", file.path);
            if holds {
                assert_eq!(file.mode & 0o077, 0, "{node}: {} is readable by others", file.path);
            }
        }
    }
    let login = serde_json::to_string(&bundle("login-0")).unwrap();
    let compute = serde_json::to_string(&bundle("standard-0")).unwrap();
    for text in [login, compute] {
        assert!(!text.contains("DATABASE-SECRET") && !text.contains("TOKEN-SECRET"));
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

#[test]
fn the_same_input_gives_the_same_bundle() {
    assert_eq!(bundle("standard-0").digest(), bundle("standard-0").digest());
    assert_ne!(bundle("standard-0").digest(), bundle("standard-1").digest());
}

#[test]
fn an_unknown_node_has_no_bundle() {
    let spec = spec();
    let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 8)), secrets());
    assert!(site(&spec, &inventory, &secrets).bundle("nobody", &keys("nobody")).is_none());
}

#[test]
fn a_file_of_the_site_takes_the_place_of_kilns() {
    let file = FILE.replace("/etc/motd", "/etc/security/limits.d/kiln.conf");
    let spec = kiln_spec::parse(&file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 8)), secrets());
    let bundle = site(&spec, &inventory, &secrets).bundle("standard-0", &keys("standard-0")).unwrap();
    let found: Vec<&Resource> =
        bundle.resources.iter().filter(|r| r.id() == "file:/etc/security/limits.d/kiln.conf").collect();
    assert!(matches!(found.as_slice(), [Resource::File(file)] if file.content == "hello\n"));
}

#[test]
fn slurm_waits_as_long_as_the_slowest_group_takes() {
    let timeout = |change: &dyn Fn(String) -> String| {
        let spec = kiln_spec::parse(&change(FILE.into()), "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let inventory = inventory(&spec, Release::new(22, 5, 8));
        let secrets = secrets();
        let text = site(&spec, &inventory, &secrets).slurm_conf().to_string();
        let line = text.lines().find_map(|l| l.strip_prefix("ResumeTimeout=")).unwrap();
        assert_eq!(kiln_site::resume_timeout(&spec).as_secs().to_string(), line);
        line.to_string()
    };
    assert_eq!(timeout(&|file| file), "300");
    let slow = |file: String| file.replace("[compute.extra]\n", "[compute.extra]\nrebuild_time = \"20m\"\n");
    assert_eq!(timeout(&slow), "1200");
    // More nodes than the cloud builds at a time: one may have to wait for another.
    assert_eq!(timeout(&|file| slow(file).replace("standard-[0-1]", "standard-[0-30]")), "2400");
    let written = |file: String| slow(file).replace("SlurmdTimeout = 60", "resumetimeout = 77");
    assert_eq!(timeout(&written), "77");
}

#[test]
fn kilnd_waits_as_long_as_the_most_patient_partition() {
    let longest = |file: &str| {
        let spec = kiln_spec::parse(file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        kiln_site::longest_resume_timeout(&spec).as_secs()
    };
    assert_eq!(longest(FILE), 300);
    let partition = |seconds: &str| {
        format!(
            "{FILE}\n[partition.patient]\ngroups = [\"extra\"]\nconfig = {{ resumetimeout = {seconds} }}\n"
        )
    };
    assert_eq!(longest(&partition("900")), 900);
    assert_eq!(longest(&partition("30")), 300);
}

/// A login becomes part of a job where Slurm has cgroups; elsewhere the Epilog ends it.
#[test]
fn logins_end_with_the_job() {
    let on = |cloud: &str| {
        let text = FILE.replace("kind = \"local\"", cloud);
        let text = text.replace("[login.login]", "[image.default]\nprebuilt = \"fat\"\n[login.login]");
        let spec = kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let (inventory, secrets) = (inventory(&spec, Release::new(24, 11, 5)), secrets());
        let site = site(&spec, &inventory, &secrets);
        let bundle = site.bundle("standard-0", &keys("standard-0")).unwrap();
        let pam = bundle.resources.iter().find_map(|resource| match resource {
            Resource::File(file) if file.path == "/etc/pam.d/sshd" => Some(file.content.clone()),
            _ => None,
        });
        let conf = site.slurm_conf().lines().filter(|l| l.starts_with("Prolog") || l.starts_with("Epilog"));
        let account = pam
            .unwrap()
            .lines()
            .filter(|line| line.starts_with("account") && line.contains("slurm"))
            .map(String::from)
            .collect::<Vec<_>>();
        conf.map(String::from).chain(account).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(on("kind = \"openstack\"\nsubnet = \"10.0.0.0/24\""), @r"
    PrologFlags=Contain
    account [success=1 ignore=1 module_unknown=ignore default=die] pam_slurm_adopt.so action_generic_failure=deny action_adopt_failure=deny
    account required pam_slurm.so
    ");
    insta::assert_snapshot!(on("kind = \"local\""), @r"
    Epilog=/usr/local/libexec/kiln/epilog.d/*
    account required pam_slurm.so
    ");
}

/// Where a volume is one node's disk, control shares what it has.
#[test]
fn volumes_of_one_node_are_shared_over_nfs() {
    let text = FILE.replace("kind = \"local\"", "kind = \"openstack\"\nsubnet = \"10.0.0.0/24\"");
    let text = text.replace("[login.login]", "[image.default]\nprebuilt = \"fat\"\n[login.login]");
    let spec = kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let mut inventory = inventory(&spec, Release::new(24, 11, 5));
    let volumes = ["home", "share", "state"].map(|p| (format!("{}-{p}", spec.name), format!("id-of-{p}")));
    inventory.exports =
        Some(kiln_site::Exports { volumes: volumes.into(), network: "10.0.0.0/24".parse().unwrap() });
    let secrets = secrets();
    let site = site(&spec, &inventory, &secrets);
    let shown = |node: &str| {
        let bundle = site.bundle(node, &keys(node)).unwrap();
        let storage = bundle.resources.into_iter().filter(|resource| match resource {
            Resource::Mount(_) => true,
            Resource::File(file) => {
                file.path.starts_with("/etc/exports") || file.path.ends_with("cgroup.conf")
            }
            Resource::Service(service) => service.unit.starts_with("nfs"),
            _ => false,
        });
        storage.map(|resource| format!("{node}: {resource:?}")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(["control", "login-0", "standard-0"].map(shown).join("\n"));
}

#[test]
fn what_the_site_sets_is_neither_lost_nor_in_the_way() {
    let text = |file: &str| {
        let spec = kiln_spec::parse(file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let inventory = inventory(&spec, Release::new(22, 5, 8));
        site(&spec, &inventory, &secrets()).slurm_conf().to_string()
    };
    let line = |text: &str, key: &str| {
        text.lines().find_map(|l| l.strip_prefix(&format!("{key}=")).map(String::from)).unwrap()
    };
    // Without it rebuild jobs lose to anybody's fair share.
    let flags = text(&FILE.replace("MpiDefault = false", "PriorityFlags = \"MAX_TRES\""));
    assert_eq!(line(&flags, "PriorityFlags"), "NO_NORMAL_PART,MAX_TRES");
    // More nodes than may be rebuilt at a time: those that wait hold their nodes.
    assert_eq!(line(&text(FILE), "SchedulerParameters"), "bf_continue,defer");
    let many = text(&FILE.replace("standard-[0-1]", "standard-[0-30]"));
    assert_eq!(line(&many, "SchedulerParameters"), "bf_licenses,bf_continue,defer");
    assert!(text(FILE).contains(" DefMemPerCPU="));
    let memory = text(&FILE.replace("MpiDefault = false", "DefMemPerNode = 500"));
    assert!(memory.contains("\nDefMemPerNode=500\n") && !memory.contains("DefMemPerCPU="), "{memory}");
}

/// Slurm compares tiers before priorities; with preemption a tier would end user jobs.
#[test]
fn rebuild_jobs_have_the_highest_tier_of_users() {
    const PARTITION: &str = "[partition.urgent]\ngroups = [\"standard\"]\nconfig = { PriorityTier = 7 }\n\
                             [partition.other]\ngroups = [\"standard\"]\nconfig = { PriorityTier = 3 }\n";
    let rebuild = |config: &str| {
        let file = format!(
            "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[image.default]\nsource = \"bookworm\"\n\
             [compute.standard]\nnodes = \"standard-[0-1]\"\n{config}"
        );
        let spec = kiln_spec::parse(&file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let inventory = inventory(&spec, Release::new(22, 5, 8));
        let text = site(&spec, &inventory, &secrets()).slurm_conf().to_string();
        text.lines().find(|line| line.starts_with("PartitionName=rebuild ")).unwrap().to_string()
    };
    assert!(rebuild(PARTITION).contains(" PriorityJobFactor=65533 PriorityTier=7 "));
    assert!(!rebuild("").contains("PriorityTier"));
    let preempts = format!("{PARTITION}[slurm.config]\nPreemptType = \"preempt/partition_prio\"\n");
    assert!(!rebuild(&preempts).contains("PriorityTier"));
}

#[test]
fn rebuild_jobs_have_an_account_where_one_is_asked_for() {
    let bundle = |file: &str| {
        let spec = kiln_spec::parse(file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let inventory = inventory(&spec, Release::new(22, 5, 8));
        let bundle = site(&spec, &inventory, &secrets()).bundle("control", &keys("control")).unwrap();
        bundle.resources.iter().any(|r| r.id() == "command:an account for rebuild jobs")
    };
    assert!(!bundle(FILE));
    assert!(bundle(&FILE.replace("MpiDefault = false", "AccountingStorageEnforce = \"limits\"")));
}

/// The NodeName lines of a file with one compute group.
fn node_lines(group: &str, topology: Option<[u32; 3]>) -> Vec<String> {
    let text = format!(
        "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[login.l]\nnodes = \"l-0\"\n[compute.a]\nnodes = \"a-[0-2]\"\n{group}"
    );
    let spec = kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let mut inventory = inventory(&spec, Release::new(22, 5, 8));
    for facts in inventory.nodes.values_mut() {
        (facts.cpus, facts.topology) = (8, topology);
    }
    let secrets = secrets();
    let conf = content(&site(&spec, &inventory, &secrets), "control", "/etc/slurm/slurm.conf");
    conf.lines().filter(|line| line.starts_with("NodeName=")).map(String::from).collect()
}

fn content(site: &kiln_site::Site<'_>, node: &str, path: &str) -> String {
    let bundle = site.bundle(node, &keys(node)).unwrap();
    let file = bundle.resources.into_iter().rev().find_map(|resource| match resource {
        Resource::File(file) if file.path == path => Some(file.content),
        _ => None,
    });
    file.unwrap_or_else(|| panic!("{node} has no {path}"))
}

#[test]
fn threads_of_one_core_are_not_cores() {
    let shown = node_lines("", Some([1, 4, 2]));
    assert_eq!(
        shown,
        ["NodeName=a-[0-2] CPUs=8 Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=1900 State=UNKNOWN"]
    );
    let own = node_lines("node_config = { ThreadsPerCore = 4 }\n", Some([1, 4, 2]));
    assert_eq!(own, ["NodeName=a-[0-2] CPUs=8 RealMemory=1900 ThreadsPerCore=4 State=UNKNOWN"]);
}

#[test]
fn single_nodes_have_parameters_of_their_own() {
    let group = "node_config = { Weight = 5, RealMemory = 1000 }\n\
                 [compute.a.override.\"a-[1-2]\"]\nnode_config = { weight = 9 }\n";
    assert_eq!(
        node_lines(group, None),
        [
            "NodeName=a-0 CPUs=8 RealMemory=1000 Weight=5 State=UNKNOWN",
            "NodeName=a-[1-2] CPUs=8 RealMemory=1000 weight=9 State=UNKNOWN",
        ]
    );
}

#[test]
fn login_nodes_have_what_slurms_commands_read() {
    let file = |path: &str| format!("[[role.control.file]]\npath = \"/etc/slurm/{path}\"\ncontent = \"x\"\n");
    let files = ["plugstack.conf", "plugstack.conf.d/a.conf", "cli_filter.lua", "job_submit.lua"].map(file);
    let text = format!(
        "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[login.l]\nnodes = \"l-0\"\n[compute.a]\nnodes = \"a-0\"\n{}",
        files.concat()
    );
    let spec = kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 8)), secrets());
    let bundle = site(&spec, &inventory, &secrets).bundle("l-0", &keys("l-0")).unwrap();
    let ids: Vec<String> = bundle.resources.iter().map(Resource::id).collect();
    let slurm: Vec<&str> = ids.iter().filter_map(|id| id.strip_prefix("file:/etc/slurm/")).collect();
    assert_eq!(slurm, ["plugstack.conf", "plugstack.conf.d/a.conf", "cli_filter.lua", "slurm.conf"]);
}

#[test]
fn slurmdbd_is_told_what_to_purge() {
    let text = "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a-0\"\n\
                [slurm.slurmdbd_config]\nPurgeJobAfter = \"12months\"\nArchiveJobs = \"yes\"\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 8)), secrets());
    let conf = content(&site(&spec, &inventory, &secrets), "control", "/etc/slurm/slurmdbd.conf");
    assert!(conf.ends_with("StorageLoc=slurm_acct_db\nArchiveJobs=yes\nPurgeJobAfter=12months\n"), "{conf}");
}

/// A second way to prove who one is, as slurmrestd needs it, is the site's to add.
#[test]
fn slurm_may_be_told_of_other_kinds_of_authentication() {
    let text = "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a-0\"\n\
                [slurm.config]\nAuthAltTypes = \"auth/jwt\"\nAuthAltParameters = \"jwt_key=/etc/slurm/jwt.key\"\n\
                [slurm.slurmdbd_config]\nAuthAltTypes = \"auth/jwt\"\n";
    let (spec, warnings) =
        kiln_spec::parse_with_warnings(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(warnings.iter().count(), 0, "{warnings}");
    let (inventory, secrets) = (inventory(&spec, Release::new(22, 5, 8)), secrets());
    let site = site(&spec, &inventory, &secrets);
    let conf = content(&site, "control", "/etc/slurm/slurm.conf");
    assert!(conf.contains("AuthType=auth/munge\n") && conf.contains("AuthAltTypes=auth/jwt\n"), "{conf}");
    assert!(conf.contains("AuthAltParameters=jwt_key=/etc/slurm/jwt.key\n"), "{conf}");
    let conf = content(&site, "control", "/etc/slurm/slurmdbd.conf");
    assert!(conf.contains("AuthType=auth/munge\n") && conf.contains("AuthAltTypes=auth/jwt\n"), "{conf}");
}

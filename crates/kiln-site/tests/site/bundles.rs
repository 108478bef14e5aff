//! What nodes get: files, users, units, secrets.

use super::*;

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
        (&compute, "directory:/etc/pki/ca-trust/source/anchors"),
    ] {
        assert!(has.iter().any(|own| own == id), "{id}: {has:?}");
    }
    let bundle = site.bundle("login-0", &keys("login-0")).unwrap();
    let update = bundle.resources.iter().find_map(|resource| match resource {
        Resource::Command(command) if resource.id().ends_with("certificates") => Some(command.argv.clone()),
        _ => None,
    });
    assert_eq!(update.unwrap_or_default(), ["update-ca-trust"]);
    assert!(
        !control.iter().chain(&compute).any(|id| id.contains("/etc/default") || id.contains("/etc/mysql"))
    );
}

#[test]
fn resources_of_every_role() {
    for node in ["control", "login-0", "standard-0"] {
        let ids: Vec<String> = bundle(node).resources.iter().map(Resource::id).collect();
        insta::assert_snapshot!(format!("resources-{node}"), ids.join("\n"));
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
    inventory.exports = Some(kiln_site::Exports {
        volumes: volumes.into(),
        file_systems: BTreeMap::new(),
        network: "10.0.0.0/24".parse().unwrap(),
    });
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

/// Where the cloud serves the home directories, every node mounts them from there, and control the share as well.
#[test]
fn file_systems_of_the_cloud_are_mounted_by_all() {
    let text = FILE.replace(
        "kind = \"local\"",
        "kind = \"oci\"\ncompartment = \"ocid1.compartment.oc1..a\"\nsubnet = \"10.0.0.0/24\"",
    );
    let text = text.replace("[login.login]", "[image.default]\nprebuilt = \"fat\"\n[login.login]");
    let text = format!("{text}\n[volumes]\nhome = \"file_storage\"\n");
    let spec = kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let mut inventory = inventory(&spec, Release::new(24, 11, 5));
    let served =
        ["home", "share"].map(|p| (format!("{}-{p}", spec.name), format!("10.0.0.5:/{}-{p}", spec.name)));
    inventory.exports = Some(kiln_site::Exports {
        volumes: [(format!("{}-state", spec.name), "id-of-state".to_string())].into(),
        file_systems: served.into(),
        network: "10.0.0.0/24".parse().unwrap(),
    });
    let secrets = secrets();
    let site = site(&spec, &inventory, &secrets);
    let shown = |node: &str| {
        let bundle = site.bundle(node, &keys(node)).unwrap();
        let storage = bundle.resources.into_iter().filter_map(|resource| match resource {
            Resource::Mount(mount) => Some(format!("{node}: {} from {:?}", mount.target, mount.source)),
            Resource::Service(service) if service.unit.starts_with("nfs") => {
                Some(format!("{node}: {}", service.unit))
            }
            _ => None,
        });
        storage.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(["control", "login-0", "standard-0"].map(shown).join("\n"));
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

/// What a site has brought along is mounted as it is: nothing of it may be written over.
#[test]
fn only_volumes_of_kilns_own_are_formatted() {
    let text = format!("{FILE}[volumes]\nhome = {{ mode = \"attach\", name = \"homes\" }}\n");
    let spec = kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let (inventory, secrets) = (inventory(&spec, Release::new(24, 11, 5)), secrets());
    let bundle = site(&spec, &inventory, &secrets).bundle("control", &keys("control")).unwrap();
    let mounts = bundle.resources.into_iter().filter_map(|resource| match resource {
        Resource::Mount(mount) => Some((mount.target, mount.format)),
        _ => None,
    });
    let formatted: BTreeMap<String, bool> = mounts.collect();
    assert_eq!((formatted["/home"], formatted["/var/lib/state"]), (false, true), "{formatted:?}");
}

/// A node of the file with these tables added.
fn with(tables: &str, cloud: &str, node: &str) -> Bundle {
    let text = FILE.replace("kind = \"local\"", cloud);
    let text = text.replace("[login.login]", "[image.default]\nprebuilt = \"fat\"\n[login.login]");
    let spec = kiln_spec::parse(&(text + tables), "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    let (inventory, secrets) = (inventory(&spec, Release::new(24, 11, 5)), secrets());
    site(&spec, &inventory, &secrets).bundle(node, &keys(node)).unwrap()
}

const OPENSTACK: &str = "kind = \"openstack\"\nsubnet = \"10.0.0.0/24\"";

fn file_of(bundle: &Bundle, path: &str) -> Option<String> {
    bundle.resources.iter().find_map(|resource| match resource {
        Resource::File(file) if file.path == path => Some(file.content.clone()),
        _ => None,
    })
}

/// Where nodes have no kernel of their own, nobody looks at the host's CPUs, memory and clock.
#[test]
fn a_health_check_looks_at_what_the_node_has() {
    let of = |tables: &str, cloud: &str, node: &str| {
        let bundle = with(tables, cloud, node);
        let json = file_of(&bundle, "/etc/kiln/health.json").unwrap();
        let check: kiln_wire::health_check::HealthCheck = serde_json::from_str(&json).unwrap();
        check
    };
    let plain = of("", "kind = \"local\"", "standard-0");
    assert!(plain.size.is_none() && !plain.clock && plain.bundle && plain.gpus == 0);
    assert_eq!(plain.mounts.iter().map(|m| m.path.as_str()).collect::<Vec<_>>(), ["/home"]);
    assert_eq!(plain.services.iter().map(|s| s.service.as_str()).collect::<Vec<_>>(), ["munge"]);

    let tables = "[health]\noff = [\"bundle\", \"services\"]\ncommands = [\"true\"]\n[[mount]]\nsource = \"f:/s\"\npath = \"/s\"\nrequired = true\n\
                  [[mount]]\nsource = \"f:/t\"\npath = \"/t\"\n";
    let full = of(tables, OPENSTACK, "extra-0");
    let size = full.size.unwrap();
    assert_eq!((size.cpus, size.memory_mib), (2, 500), "as slurm.conf has it");
    assert!(full.clock && !full.bundle && full.services.is_empty());
    assert_eq!(full.mounts.iter().map(|m| m.path.as_str()).collect::<Vec<_>>(), ["/home", "/s"]);
    assert_eq!(full.commands, ["true"]);
    assert_eq!(file_of(&with("", OPENSTACK, "login-0"), "/etc/kiln/health.json"), None);
}

#[test]
fn mounts_of_the_site_come_behind_its_files_and_before_slurmd() {
    let tables = "[volumes]\nhome = { mode = \"nfs\", source = \"filer:/home\" }\n\
                  [[mount]]\nsource = \"filer:/scratch\"\npath = \"/scratch\"\nroles = [\"compute\"]\n";
    let ids = |node: &str| -> Vec<String> {
        let wanted =
            ["mount:/home", "user:alice", "file:/etc/motd", "mount:/scratch", "service:slurmd.service"];
        let bundle = with(tables, "kind = \"local\"", node);
        bundle.resources.iter().map(Resource::id).filter(|id| wanted.contains(&id.as_str())).collect()
    };
    assert_eq!(
        ids("standard-0"),
        ["mount:/home", "user:alice", "file:/etc/motd", "mount:/scratch", "service:slurmd.service"]
    );
    assert_eq!(ids("login-0"), ["mount:/home", "user:alice"]);
    assert_eq!(ids("control"), ["mount:/home", "user:alice"]);
    let makes_home = |node: &str| {
        let bundle = with(tables, "kind = \"local\"", node);
        bundle
            .resources
            .iter()
            .any(|r| matches!(r, Resource::User(user) if user.name == "alice" && user.make_home))
    };
    assert!(makes_home("control") && !makes_home("login-0") && !makes_home("standard-0"));
}

/// Of the volume that control mounts. Others have it by NFS, and a directory of the local cloud has none.
#[test]
fn quotas_are_controls() {
    let quotas = |cloud: &str, node: &str| -> Vec<String> {
        let bundle = with("[volumes]\nhome = { quota = true }\n", cloud, node);
        let has = |r: &Resource| matches!(r, Resource::Mount(mount) if mount.quota);
        bundle.resources.iter().filter(|r| has(r)).map(Resource::id).collect()
    };
    assert_eq!(quotas(OPENSTACK, "control"), ["mount:/home"]);
    assert!(quotas(OPENSTACK, "standard-0").is_empty() && quotas("kind = \"local\"", "control").is_empty());
}

#[test]
fn settings_of_the_system() {
    let tables = "[time]\nservers = [\"ntp.example.org\"]\nzone = \"Europe/Berlin\"\n\
                  [system]\ndns = [\"192.0.2.53\"]\nsearch = [\"example.org\"]\nproxy = \"http://proxy:3128\"\nno_proxy = [\".example.org\"]\n\
                  sysctl = { \"vm.swappiness\" = 1 }\nlocale = \"de_DE.UTF-8\"\njournal = 50\nsyslog = \"log.example.org\"\n";
    let bundle = with(tables, OPENSTACK, "standard-0");
    let shown = [
        "/etc/chrony/kiln.conf",
        "/etc/chrony/kiln.options",
        "/etc/systemd/system/chrony.service.d/kiln.conf",
        "/etc/resolv.conf",
        "/etc/profile.d/kiln-proxy.sh",
        "/etc/sysctl.d/90-kiln.conf",
        "/etc/default/locale",
        "/etc/systemd/journald.conf.d/kiln.conf",
        "/etc/rsyslog.d/90-kiln.conf",
    ]
    .map(|path| format!("== {path}\n{}", file_of(&bundle, path).unwrap_or_default()));
    insta::assert_snapshot!(shown.concat());
    let zone = |r: &Resource| matches!(r, Resource::Link(link) if link.target == "/usr/share/zoneinfo/Europe/Berlin");
    assert!(bundle.resources.iter().any(zone));
    // The local cloud's nodes have their host's clock and kernel.
    let local = with(tables, "kind = \"local\"", "standard-0");
    for path in ["/etc/chrony/kiln.conf", "/etc/sysctl.d/90-kiln.conf"] {
        assert_eq!(file_of(&local, path), None, "{path}");
    }
}

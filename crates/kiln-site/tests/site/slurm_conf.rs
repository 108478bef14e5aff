//! slurm.conf and slurmdbd.conf.

use super::*;

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

/// Jobs that rebuild nodes ask for it, in the releases in which they have to ask for something.
#[test]
fn node_lines_with_the_feature_that_rebuild_jobs_need() {
    let spec = spec();
    let has = |release| {
        let inventory = inventory(&spec, release);
        let secrets = secrets();
        let site = site(&spec, &inventory, &secrets);
        let lines = site.slurm_conf().lines().filter(|line| line.starts_with("NodeName="));
        let all: Vec<bool> =
            lines.map(|line| line.contains("Feature=kiln ") || line.contains(",kiln ")).collect();
        assert!(!all.is_empty());
        (all.iter().all(|has| *has), all.iter().any(|has| *has))
    };
    assert_eq!(has(Release::new(23, 11, 4)), (true, true));
    assert_eq!(has(Release::new(23, 11, 5)), (false, false));
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
    let members = |file: &str| {
        let spec = kiln_spec::parse(file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let inventory = inventory(&spec, Release::new(22, 5, 8));
        let bundle = site(&spec, &inventory, &secrets()).bundle("control", &keys("control")).unwrap();
        let accounts = bundle.resources.iter().find_map(|r| match r {
            Resource::Accounts(accounts) => Some(accounts.wanted.members.clone()),
            _ => None,
        });
        accounts.unwrap_or_default().into_iter().map(|m| (m.user, m.account)).collect::<Vec<_>>()
    };
    assert_eq!(members(FILE), []);
    let enforced = FILE.replace("MpiDefault = false", "AccountingStorageEnforce = \"limits\"");
    assert_eq!(members(&enforced), [("slurm".to_string(), "root".to_string())]);
    let accounts = format!("{FILE}\n[account.physics]\nmembers = [\"ada\"]\n");
    let expected = [("slurm", "root"), ("ada", "physics")].map(|(u, a)| (u.to_string(), a.to_string()));
    assert_eq!(members(&accounts), expected);
    let site = enforced.replace("\"limits\"", "false") + "\n[account.physics]\nmembers = [\"ada\"]\n";
    assert_eq!(members(&site), expected[1..], "nobody is asked for an account");
}

#[test]
fn accounts_are_made_before_slurmctld_asks_for_them() {
    const ACCOUNTS: &str = "\n[account.physics]\nmembers = [\"ada\"]\nfairshare = 3\nlimits = { GrpTRES = \"gres/gpu=4,cpu=8\" }\n\
        [qos.long]\n[partition.long]\ngroups = [\"standard\"]\nqos = \"long\"\nallow_accounts = [\"physics\", \"root\"]\nallow_qos = [\"long\", \"normal\"]\n";
    let of = |file: &str| {
        let spec = kiln_spec::parse(file, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        let inventory = inventory(&spec, Release::new(22, 5, 8));
        let secrets = secrets();
        let site = site(&spec, &inventory, &secrets);
        (site.slurm_conf().to_string(), site.bundle("control", &keys("control")).unwrap().resources)
    };
    let (text, resources) = of(&format!("{FILE}{ACCOUNTS}"));
    for line in [
        "AccountingStorageEnforce=associations,limits,qos",
        "AccountingStorageTRES=gres/gpu",
        "PriorityWeightFairshare=100000",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
    }
    assert!(text.contains(" QoS=long AllowAccounts=physics,root AllowQos=long,normal"), "{text}");
    let at = |id: &str| resources.iter().position(|r| r.id() == id).unwrap_or_else(|| panic!("no {id}"));
    assert!(at("service:slurmdbd.service") < at("accounts:demo"));
    assert!(at("accounts:demo") < at("service:slurmctld.service"));
    assert!(at("service:slurmctld.service") < at("accounts:demo with all resources"));
    let needs = resources.iter().any(|r| {
        matches!(r, Resource::Service(s)
            if s.unit == "slurmctld.service" && s.needs.contains(&"accounts:demo".to_string()))
    });
    assert!(needs, "without accounts, slurmctld goes on as before");
    let (text, resources) = of(&format!("{FILE}{ACCOUNTS}[accounting]\nmode = \"off\"\n"));
    assert!(!text.contains("AccountingStorageEnforce") && text.contains(" QoS=long "), "{text}");
    assert!(!resources.iter().any(|r| matches!(r, Resource::Accounts(_))));
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

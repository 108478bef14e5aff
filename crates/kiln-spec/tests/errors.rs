//! What the user sees when the file is wrong. Each snapshot is the whole output for one file.

/// The smallest file that is right.
const HEAD: &str = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n";
const OPENSTACK: &str = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"openstack\"\n";
const COMPUTE: &str = "[compute.standard]\nnodes = \"standard-[0-1]\"\n";
const EXTRA: &str = "[compute.extra]\nnodes = \"extra-[0-1]\"\n";

fn errors(text: &str) -> String {
    kiln_spec::parse(text, "cluster.toml").expect_err("the file is wrong").to_string()
}

fn warned(text: &str) -> String {
    let (_, warnings) =
        kiln_spec::parse_with_warnings(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    warnings.to_string()
}

/// Tests of whole files.
macro_rules! files {
    ($($name:ident: $text:expr;)*) => { $(
        #[test]
        fn $name() {
            insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(errors($text)); });
        }
    )* };
}

/// Tests of tables that stand in an otherwise right file.
macro_rules! tables {
    ($($name:ident: $text:expr;)*) => { files! { $( $name: &format!("{HEAD}{COMPUTE}{}", $text); )* } };
}

files! {
    empty_file: "";
    syntax_error: "[cluster]\nname = \"demo\n[cloud]\nkind = local\n";
    two_syntax_errors: "[cluster\nname = \"demo\"\n[cloud]\nkind = local\n";
    duplicate_toml_key: "[cluster]\nname = \"demo\"\nname = \"other\"\n";
    duplicate_toml_table: &format!("{HEAD}{COMPUTE}{COMPUTE}");
    no_compute_group: HEAD;
    empty_compute: &format!("{HEAD}[compute]\n");
    bad_cluster_table: &format!("[cluster]\nname = \"Demo Cluster\"\ndomain = \"-x.internal\"\nconcurrency = 0\n[cloud]\nkind = \"local\"\n{COMPUTE}");
    unknown_cloud: &format!("[cluster]\nname = \"demo\"\n[cloud]\nkind = \"openstak\"\n{COMPUTE}");
    another_name_of_a_cloud: &format!("[cluster]\nname = \"demo\"\n[cloud]\nkind = \"Oracle\"\n{COMPUTE}");
    openstack_without_network: &format!("{OPENSTACK}[image.default]\nsource = \"debian-12\"\n{COMPUTE}");
    openstack_without_source: &format!("{OPENSTACK}network = \"lab\"\n{COMPUTE}");
    openstack_settings: &format!("{OPENSTACK}network = \"\"\nsubnet = \"10.1.0.0\"\nserver_group = \"far\"\nroot_disk = {{ size = \"20 GB\" }}\nsecurity_groups = [\"a\", \"a\"]\nssh_from = [\"192.0.2.9/24\", \"10.0.0.1\", \"::/0\"]\n[image.default]\nprebuilt = \"fat\"\npackages = [\"htop\"]\nsource = \"debian-12\"\n{COMPUTE}");
    owned_slurmdbd_keys: &format!("{HEAD}{COMPUTE}[slurm.slurmdbd_config]\nStoragePass = \"x\"\ndbdhost = \"y\"\n");
    openstack_keys_on_local: &format!("[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\ncloud = \"lab\"\nroot_disk = {{ size = \"20 GiB\" }}\n{COMPUTE}");
    ssh_from_nowhere: &format!("{OPENSTACK}network = \"lab\"\nssh_from = []\n[image.default]\nprebuilt = \"fat\"\n{COMPUTE}");
    keys_of_no_cloud: &format!("[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\nsbunet = \"10.1.0.0/24\"\n{COMPUTE}");
    cloud_without_kind: &format!("[cluster]\nname = \"demo\"\n[cloud]\nnetwork = 7\nflavour = \"x\"\n{COMPUTE}");
    bad_hostlist: &format!("{HEAD}[compute.a]\nnodes = \"a[1-4],b[7-3]\"\n");
    bad_hostlist_in_literal_string: &format!("{HEAD}[compute.a]\nnodes = 'a[1-4'\n");
    range_too_large: &format!("{HEAD}[compute.a]\nnodes = \"a[0-65536]\"\n");
    too_many_nodes: &format!("{HEAD}[compute.a]\nnodes = \"a[1-40000]\"\n[compute.b]\nnodes = \"b[1-40000]\"\n");
    duplicate_node_in_list: &format!("{HEAD}[compute.a]\nnodes = \"a[1-4,3],a[2]\"\n");
    bad_node_names: &format!("{HEAD}[compute.a]\nnodes = \"a_[1-4]\"\n[compute.b]\nnodes = \"b-\"\n[compute.c]\nnodes = \"[1-2]\"\n");
    upper_case_names: "[cluster]\nname = \"Demo\"\n[cloud]\nkind = \"local\"\n[control]\nnode = \"CTL\"\n[login.l]\nnodes = \"l1,L2\"\n[compute.a]\nnodes = \"Node-[0-1]\"\n[volumes]\nstate = { mode = \"attach\", name = \"State\" }\n";
    names_that_end_in_a_dash: &format!("[cluster]\nname = \"demo-\"\n[cloud]\nkind = \"local\"\n{COMPUTE}[volumes]\nhome = {{ mode = \"attach\", name = \"my_homes-\" }}\n");
    reserved_node_names: &format!("{HEAD}[compute.a]\nnodes = \"localhost\"\n[compute.b]\nnodes = \"ALL\"\n[compute.c]\nnodes = \"n1,none\"\n");
    reserved_group_names: &format!("{HEAD}[compute.default]\nnodes = \"a1\"\n[compute.control]\nnodes = \"b1\"\n");
    many_errors: MANY;
    subnet_too_small: "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\nsubnet = \"10.1.0.0/28\"\n[compute.a]\nnodes = \"a[1-20]\"\n";
    subnet_has_host_bits: &format!("[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\nsubnet = \"10.1.0.9/24\"\n{COMPUTE}");
    subnet_not_private: &format!("[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\nsubnet = \"8.8.8.0/24\"\n{COMPUTE}");
    subnet_not_a_network: &format!("[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\nsubnet = \"10.1.0.0\"\n{COMPUTE}");
    addresses: ADDRESSES;
}

tables! {
    gpus_and_switches: "[compute.g]\nnodes = \"g-[0-1]\"\nswitch = \"core//x\"\nelastic = {}\ngpus = { count = 65, type = \"A100\", files = \"nvidia0\", detect = \"nvml\" }\n[compute.h]\nnodes = \"h-0\"\nswitch = \"a/a\"\ngpus = { count = 2, type = \"4\", files = \"/dev/nvidia[0-3]\" }\nnode_config = { Gres = \"gpu:2\" }\n[compute.h.override.h-0]\ngpus = { detect = \"magic\" }\n";
    dashboard_settings: "[dashboard]\nfrom = [\"192.0.2.7/24\"]\naddress = \"http://kiln.example.org/x\"\ncertificate = \"kiln.pem\"\n\
        [dashboard.oidc]\nissuer = \"http://sso.example.org\"\nclient_id = \" \"\nclient_secret = \"s3cret\"\nscopes = [\"a b\"]\n";
    dashboard_for_nobody: "[dashboard]\nfrom = []\nkey = \"file:kiln.key\"\n[dashboard.oidc]\nissuer = \"https://sso.example.org\"\n";
    dashboard_without_networks: "[dashboard]\naddress = \"https://kiln.example.org:0\"\ncertificate = \"missing.pem\"\nkey = \"file:kiln.key\"\n";
    notify_settings: "[notify]\nmail_to = [\"ops\"]\nmail_server = \"mail:x\"\nwebhook = \"https://hooks.example.org/s3cret\"\nform = \"pigeon\"\nabout = [\"rollouts\"]\nevery = \"2d\"\ntext = \"{node} {text}\"\n";
    notify_mail_login: "[notify]\nmail_to = [\"ops@example.org\"]\nmail_server = \"mail:587\"\nmail_tls = \"off\"\nmail_credentials = \"file:login\"\n";
    notify_mail_password: "[notify]\nmail_to = [\"ops@example.org\"]\nmail_server = \"mail:587\"\nmail_tls = \"ssl\"\nmail_credentials = \"me:s3cret\"\n";
    notify_nobody: "[notify]\nevery = \"1m\"\n";
    notify_mail_without_server: "[notify]\nmail_to = [\"ops@example.org\"]\n";
    pulp_without_server: "[source.a]\npulp = \"debian\"\n[source.b]\n";
    pulp_settings: "[pulp]\naddress = \"pulp.example.org\"\ncontent = \"ftp://x\"\ncredentials = \"me:word\"\n[source.a]\npulp = \"../debian\"\naddress = \"http://mirror.example.org/{snapshot}\"\n";
    pulp_without_address: "[pulp]\ncredentials = \"env:A\"\n";
    elastic_settings: "[compute.a]\nnodes = \"a-[0-1]\"\nimage_update = \"apply\"\nzones = [\"\"]\n\
        elastic = { idle = \"5s\", min = 3, flavors = [\"a\\nb\"] }\n\
        [reconcile]\nevery = \"0s\"\ngrace = \"soon\"\nfailures = 0\n";
    health_settings: "[health]\nevery = \"0s\"\noff = [\"clocks\"]\ncommands = [\" \"]\n";
    mounts: "[[mount]]\nsource = \"a b\"\npath = \"scratch\"\ntype = \"NFS\"\noptions = [\"rw,soft\"]\nroles = []\n\
        [[mount]]\nsource = \"filer:/a\"\npath = \"/etc/site\"\nautomount = true\nrequired = true\n\
        [[mount]]\nsource = \"filer:/home\"\npath = \"/home\"\n[[mount]]\nsource = \"filer:/b\"\npath = \"/b\"\n\
        [[mount]]\nsource = \"filer:/c\"\npath = \"/b\"\nroles = [\"login\"]\n[[mount]]\npath = \"/d\"\n";
    homes_on_a_file_server: "[volumes]\nstate = \"nfs\"\nhome = { mode = \"nfs\", size = \"20 GiB\" }\n";
    homes_of_two_kinds: "[volumes]\nhome = { mode = \"manage\", source = \"filer:/home\" }\n";
    quotas: "[volumes]\nstate = { quota = true }\nhome = { mode = \"attach\", name = \"homes\", quota = true }\n";
    system_settings: "[system]\ndns = [\"ns.example.org\"]\nsearch = [\"a b\"]\nproxy = \"http://user:secret@proxy\"\nno_proxy = [\"a b\"]\n\
        sysctl = { swappiness = 1 }\nlocale = \"de DE\"\njournal = 1\nsyslog = \"log:0\"\ncertificates = [\"ca.pem\"]\n\
        [time]\nservers = [\"ntp example\"]\nzone = \"../etc/passwd\"\n";
    backup_settings: "[backup]\nat = \"noon\"\nkeep = 0\nsize = \"1 GiB\"\npath = \"backups\"\n";
    accounting_settings: "[accounting]\nhost = \"dbd example\"\nport = 70000\nbackup_host = \"\"\n[slurm.slurmdbd_config]\nPurgeJobAfter = \"12months\"\n";
    accounting_without_host: "[accounting]\nport = 6820\n[slurm.config]\nAccountingStorageHost = \"dbd\"\n";
    accounts: "[account.Physics]\nparent = \"sciense\"\nmembers = [\"ada\", \"ada\", \"slurm\", \"A B\"]\nfairshare = -1\nqos = [\"lng\"]\n\
        [account.science]\nlimits = { MaxJob = 1, MaxJobs = \"-1\", GrpTRES = \"cpu\", GrpWall = \"UNLIMITED\" }\nqos = []\norganisation = \"a|b\"\n\
        [account.root]\n[account.a]\nparent = \"b\"\n[account.b]\nparent = \"a\"\ndefault_qos = \"normal\"\nqos = [\"long\"]\n\
        [qos.long]\nflags = [\"DenyOnLimits\"]\npreempt = [\"long\"]\npreempt_mode = \"kill\"\npriority = -1\nusage_factor = \"x\"\n\
        limits = { MaxJobs = 1 }\n[qos.\"a,b\"]\n[user.ada]\nuid = 2001\naccount = \"a\"\n[user.ben]\nuid = 2002\naccount = \"none\"\n";
    accounts_of_partitions: "[partition.p]\ngroups = [\"standard\"]\nqos = \"lon\"\nallow_accounts = []\nallow_qos = [\"normal\"]\nconfig = { AllowQos = \"x\", qos = \"y\" }\n[qos.long]\n";
    backup_beside_state: "[backup]\npath = \"/var/lib/state/backup/\"\n";
    monitoring_settings: "[monitoring]\nretention = \"1m\"\nsize = \"2 GB\"\ninterval = \"0s\"\nprices = { small = -1, large = \"x\" }\n\
        [monitoring.mail]\nto = [\"ops\"]\nfrom = \"kiln@example.org\"\nserver = \"mail\"\ncredentials = \"me:word\"\n\
        [monitoring.webhook.a]\naddress = \"alerts.example.org\"\n[monitoring.webhook.b]\naddress = \"https://me:word@x\"\n[monitoring.webhook.c]\n[monitoring.webhook.\"D e\"]\naddress = \"env:9\"\n";
    rest_keys: "[slurm]\nrest = true\n[slurm.config]\nAuthAltTypes = \"auth/jwt\"\n[slurm.slurmdbd_config]\nauthaltparameters = \"jwt_key=/x\"\n";
    limits_out_of_range: "[limits.\"VM.Standard2.1\"]\nzones = { ad1 = 10000, ad2 = -1 }\n[limits.small]\n";
    unknown_table: "[partitions.standard]\ngroups = [\"standard\"]\n";
    unknown_key: "[login.login]\nnodez = \"login-0\"\n";
    keys_of_other_tables: "[user.demo]\nuid = 2001\npackages = [\"htop\"]\npath = \"/etc/motd\"\nreturntoservice = 1\nmode = \"none\"\ncontrol = {}\n[control]\nmode = \"none\"\n[slurm]\nKillWait = 30\n";
    unknown_key_in_inline_table: "[volumes]\nstate = { mode = \"manage\", sise = \"20 GiB\" }\n";
    wrong_types: "[control]\nnode = 7\nimage = [\"a\"]\n[login.login]\nnodes = [\"login-0\"]\n[partition.standard]\ngroups = \"standard\"\ndefault = \"yes\"\n[role.login]\npackages = [\"htop\", 3]\n";
    table_is_a_value: "[user]\nalice = 2001\n";
    node_in_two_groups: "[compute.more]\nnodes = \"more-0,standard-[1-2]\"\n";
    node_is_control: "[login.login]\nnodes = \"login-0,control\"\n";
    unknown_group: "[partition.p]\ngroups = [\"standart\"]\n[login.l]\nnodes = \"l1\"\n[partition.q]\ngroups = [\"l\"]\n";
    partition_without_groups: "[partition.p]\ngroups = []\n[partition.q]\n";
    partition_names: "[partition.ALL]\ngroups = [\"standard\"]\n[partition.rebuild]\ngroups = [\"standard\"]\n[partition.\"a b\"]\ngroups = [\"standard\"]\n";
    two_default_partitions: "[partition.a]\ngroups = [\"standard\"]\ndefault = true\n[partition.b]\ngroups = [\"standard\"]\ndefault = true\n";
    bad_times: "[partition.a]\ngroups = [\"standard\"]\nmax_time = \"1d\"\n[rebuild.r]\ngroups = [\"standard\"]\nmax_time = \"30\"\n";
    rebuild_overlap: format!("{EXTRA}[rebuild.one]\ngroups = [\"standard\"]\n[rebuild.two]\ngroups = [\"extra\", \"standard\"]\n");
    rebuild_covers_part: format!("{EXTRA}[partition.all-nodes]\ngroups = [\"standard\", \"extra\"]\n[rebuild.rebuild]\ngroups = [\"standard\"]\n");
    rebuild_covers_part_by_default: format!("{EXTRA}image_update = \"apply\"\n[partition.all-nodes]\ngroups = [\"standard\", \"extra\"]\n");
    unknown_image: "[image.default]\nsource = \"bookwork\"\n[control]\nimage = \"defualt\"\n";
    image_cycle: "[image.default]\n[image.a]\nsource = \"b\"\n[image.b]\nsource = \"c\"\n[image.c]\nsource = \"b\"\n";
    image_not_chosen: "[image.one]\n[image.two]\n";
    image_lacks_role: "[image.default]\nroles = [\"login\", \"compute\"]\n";
    source_settings: "[source.system]\naddress = \"mirror.example.org\"\n[source.a]\naddress = \"http://me:word@a.example.org\"\ncredentials = \"me:word\"\nkey = \"none.asc\"\n[source.b]\naddress = \"http://b.example.org/{snapshot}\"\ncomponents = [\"main\"]\n[source.c]\naddress = \"http://c.example.org\"\nsnapshot = \"../x\"\nsuites = [\"a b\"]\nkeep = true\ncredentials = \"env:C\"\n[source.d]\nsuites = [\"x\"]\n";
    image_settings: "[image.default]\nroles = [\"computer\"]\npackages = [\"Htop\", \"a b\"]\nhold = [\"vim=1\", \"libc6:amd64\", \"Vim\"]\ncommands = [\"\"]\nsources = []\n[image.trixie]\n[image.a]\nsources = [\"system\", \"sit\"]\n[image.b]\nsources = 7\n[source.site]\naddress = \"http://site.example.org\"\n";
    el_images: "[image.default]\nsource = \"rocky9\"\n[image.a]\nprebuilt = \"r\"\nsystem = \"rocky\"\n[image.b]\nprebuilt = \"r\"\nsystem = \"alma9\"\n[image.c]\nsource = \"b\"\nsystem = \"alma9\"\nsources = [\"site\"]\npackages = [\"NetworkManager\", \"a b\"]\n[image.d]\nsource = \"trixie\"\nsystem = \"trixie\"\n[source.site]\naddress = \"http://site.example.org\"\nsuites = [\"x\"]\n[role.login]\npackages = [\"slurm-pam_slurm\"]\n";
    software_settings: "[software.mpi]\n[software.\"a b\"]\npackages = [\"Htop\"]\nsources = [\"sit\"]\ncommands = [\"\"]\n\
        [software.one]\nfile = [{ path = \"/etc/a\", content = \"\", mode = \"9\" }, { path = \"/tmp/x\", content = \"\" }, { path = \"/etc/slurm/slurm.conf\", content = \"\" }]\n\
        [software.two]\nfile = [{ path = \"/etc/a\", content = \"\" }]\n\
        [image.default]\nsoftware = [\"one\", \"two\", \"appptainer\", \"gpu\"]\n[image.b]\nprebuilt = \"fat\"\nsoftware = [\"mpi\"]\n";
    image_machine: "[image.default.build]\nflavor = \"\"\nnetwork = \"lab\"\ndisk = \"20 GB\"\ntimeout = \"soon\"\n\
        [image.default.properties]\nfirmware = \"efi\"\nvisibility = \"all\"\nmin_disk = \"0 GiB\"\nmachine_type = \"\"\n\
        other = { kiln_recipe = \"x\", hw_firmware_type = \"bios\", hw_rng_model = \"\" }\n\
        [image.b]\nprebuilt = \"fat\"\nbuild.flavor = \"x\"\n";
    override_not_in_group: "[compute.standard.override.\"standard-[1-2]\"]\nflavor = \"large\"\n";
    override_twice: "[compute.standard.override.\"standard-[0-1]\"]\nflavor = \"large\"\n[compute.standard.override.standard-1]\nflavor = \"small\"\n";
    override_bad_hostlist: "[compute.standard.override.\"standard-[1-\"]\nflavor = \"large\"\n";
    volumes: "[volumes]\nstate = { mode = \"manage\", size = \"20 GB\", name = \"x\" }\nhome = { mode = \"attach\", size = \"1 GiB\" }\n";
    file_storage: "[volumes]\nstate = \"file_storage\"\nhome = { mode = \"file_storage\", size = \"1 GiB\", name = \"x\" }\n";
    volume_mode: "[volumes]\nstate = \"managed\"\nhome = 3\n";
    user_names: "[user.root]\nuid = 2001\n[user.slurm]\nuid = 2002\n[user.Alice]\nuid = 2003\n[user.\"bob smith\"]\nuid = 2004\n";
    user_ids: "[user.alice]\nuid = 2001\n[user.bob]\nuid = 2001\n[user.carol]\nuid = 999\n[user.dave]\n";
    user_groups: "[user.alice]\nuid = 52250\ngroups = [\"physics\", \"beta\", \"team355\", \"bob\", \"a b\"]\n[user.bob]\nuid = 2002\n[user.carol]\nuid = 2003\n[user_group.slurm]\ngid = 2004\n[user_group.x]\ngid = 2002\n[user_group.y]\ngid = 7\n[user_group.carol]\ngid = 2004\n[user_group.z]\n";
    ssh_keys: "[user.alice]\nuid = 2001\nssh_keys = [\n  \"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE5H\",\n  \"ssh-ed2551 AAAA\",\n  'from=\"10.0.0.0/8 ssh-ed25519 AAAA',\n  'command=\"a b\" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE5H',\n  'no-pty',\n  \"ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIE5H4qOYcgAdZgHuEXeN5Vz5KJV6hLh0xCRfpM0T5Bdr\",\n  \"-----BEGIN OPENSSH PRIVATE KEY-----\",\n  \"\",\n]\n";
    slurm_without_partition_factor: "[slurm.config]\nprioritytype = \"priority/basic\"\nPriorityWeightPartition = 0\n";
    slurm_weights: "[slurm.config]\nPriorityWeightPartition = 1\nPriorityWeightAge = 60000\nPriorityWeightTRES = \"cpu=5000,mem=532\"\n";
    slurm_without_kilns_priority: "[slurm.config]\nPriorityType = false\n";
    slurm_owned_keys: "[slurm.config]\nclustername = \"x\"\nRebootProgram = \"/bin/true\"\n[partition.p]\ngroups = [\"standard\"]\nconfig = { Nodes = \"ALL\" }\n";
    slurm_duplicate_key: "[slurm.config]\nReturnToService = 2\nreturntoservice = 1\n";
    slurm_bad_values: "[slurm.config]\nMailProg = 1.5\nProlog = \"/bin/a\\nNodeName=x\"\nPriority-Type = \"x\"\n";
    warnings_beside_errors: "[partition.p]\ngroups = [\"standart\"]\n[slurm.config]\nSchedulerParameter = \"defer\"\nFooBar = 1\n[[role.control.file]]\npath = \"/etc/hosts\"\ncontent = \"\"\n";
    own_files: "[[role.login.file]]\npath = \"/etc/slurm/slurm.conf\"\ncontent = \"\"\n[[role.login.file]]\npath = \"/etc/munge/munge.key\"\ncontent = \"\"\n[[role.login.file]]\npath = \"/etc/kiln/x\"\ncontent = \"\"\n[[role.login.file]]\npath = \"/var/lib/kiln\"\ncontent = \"\"\n";
    role_files: "[role.compute]\npackages = [\"x\"]\n[[role.compute.file]]\npath = \"etc/motd\"\ncontent = \"\"\nmode = \"rw\"\nowner = \"Root\"\n[[role.compute.file]]\npath = \"/etc/../x\"\n[role.gpu]\n";
}

const ADDRESSES: &str = r#"[cluster]
name = "demo"
[cloud]
kind = "local"
subnet = "10.1.0.0/24"
[compute.a]
nodes = "a[1-9]"
override.a1.address = "10.2.0.5"
override.a2.address = "10.1.0.5"
override.a3.address = "10.1.0.5"
override.a4.address = "10.1.0.1"
override.a5.address = "10.1.0"
override."a[6-7]".address = "10.1.0.7"
"#;

const MANY: &str = r#"[cluster]
nmae = "demo"
concurrency = "many"

[cloud]
kind = "lokal"
subnet = "10.0.0.0/8"

[login.login]
nodes = "login-[0-"

[compute.standard]
nodes = "standard-[0-3]"
flavour = "large"
image = "gpu"
override.standard-7.flavor = "small"

[partition.standard]
groups = ["standard", "extra"]
max_time = "tomorrow"

[user.munge]
uid = 12
"#;

#[test]
fn json() {
    let errors = kiln_spec::parse(MANY, "cluster.toml").expect_err("the file is wrong");
    insta::assert_snapshot!(serde_json::to_string_pretty(&errors).expect("JSON"));
}

#[test]
fn an_address_needs_a_subnet() {
    let text = format!("{HEAD}{COMPUTE}override.standard-0.address = \"10.1.0.5\"\n");
    assert!(errors(&text).contains("a fixed address needs a fixed subnet"));
}

#[test]
fn warnings() {
    let text = format!(
        "{HEAD}{COMPUTE}{EXTRA}image_update = \"apply\"\n[compute.idle]\nnodes = \"idle-0\"\n\
         [partition.standard]\ngroups = [\"standard\"]\n[partition.extra]\ngroups = [\"extra\"]\n\
         [rebuild.r]\ngroups = [\"standard\", \"extra\"]\n\
         [slurm.config]\nReturnToServise = 2\nreturntoservice = 1\nFooBar = 1\nSuspendExcStates = \"DOWN\"\n"
    );
    insta::assert_snapshot!(warned(&text));
}

#[test]
fn preemption_and_rebuilds() {
    let file = |kind: &str, config: &str| {
        format!(
            "{HEAD}{COMPUTE}[partition.p]\ngroups = [\"standard\"]\nconfig = {config}\n\
             [slurm.config]\nPreemptType = \"{kind}\"\nPreemptMode = \"REQUEUE\"\n"
        )
    };
    for (kind, config) in [
        ("preempt/none", "{ PriorityTier = 5 }"),
        ("preempt/partition_prio", "{ PriorityTier = 1 }"),
        ("preempt/partition_prio", "{}"),
    ] {
        assert!(!warned(&file(kind, config)).contains("preempt"), "{kind} {config}");
    }
    let starved = warned(&file("preempt/partition_prio", "{ prioritytier = 5 }"));
    let by_qos = warned(&file("preempt/qos", "{}"));
    insta::assert_snapshot!(format!("{starved}\n{by_qos}"));
}

#[test]
fn files_in_place_of_kilns() {
    let paths = [
        ("control", "/etc/hosts"),
        ("control", "/etc/slurm/slurmdbd.conf"),
        ("login", "/etc/slurm/slurmdbd.conf"),
        ("login", "/etc/ssh/sshd_config.d/kiln.conf"),
        ("login", "/etc/kilns"),
        ("login", "/etc/pam.d/sshd"),
        ("compute", "/etc/pam.d/sshd"),
        ("compute", "/etc/ssh/kiln-keys/root"),
        ("compute", "/etc/ssh/ssh_host_ed25519_key"),
        ("control", "/etc/slurm/gres.conf"),
        ("compute", "/etc/slurm/gres.conf"),
    ];
    let files =
        paths.map(|(role, path)| format!("[[role.{role}.file]]\npath = \"{path}\"\ncontent = \"\"\n"));
    insta::assert_snapshot!(warned(&format!("{HEAD}{COMPUTE}{}", files.concat())));
}

#[test]
fn colour_only_when_asked_for() {
    let errors = kiln_spec::parse("", "cluster.toml").expect_err("the file is wrong");
    assert!(!errors.render(false).contains('\u{1b}'));
    assert!(errors.render(true).contains('\u{1b}'));
}

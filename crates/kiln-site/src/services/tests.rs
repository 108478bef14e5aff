use kiln_spec::System;

use super::*;

fn spec(cloud: &str) -> Spec {
    let text = format!(
        "[cluster]\nname = \"demo\"\n[cloud]\n{cloud}\n[image.default]\nsource = \"bookworm\"\n\
         [compute.standard]\nnodes = \"standard-[0-1]\"\n"
    );
    kiln_spec::parse(&text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn debian() -> &'static Family {
    Family::of_system(System::Debian("bookworm"))
}

fn list(packages: BTreeSet<&str>) -> String {
    packages.into_iter().collect::<Vec<_>>().join(" ")
}

const LOCAL: &str = "kind = \"local\"";
const OPENSTACK: &str = "kind = \"openstack\"\nsubnet = \"10.0.0.0/24\"";

const OCI: &str = "kind = \"oci\"\ncompartment = \"ocid1.compartment.oc1..x\"\nsubnet = \"10.0.0.0/24\"";

#[test]
fn kilnd_reaches_the_metadata_where_it_signs_with_what_they_say() {
    let (oci, openstack) = (spec(OCI), spec(OPENSTACK));
    assert!(metadata::unit_file(&oci, Role::Control).contains(" node keep-metadata --also=64832\n"));
    for (spec, role) in [(&oci, Role::Login), (&oci, Role::Compute), (&openstack, Role::Control)] {
        assert!(metadata::unit_file(spec, role).contains(" node keep-metadata\n"), "{role:?}");
    }
}

#[test]
fn an_image_has_the_software_of_its_roles() {
    let spec = spec(LOCAL);
    let of = |role| list(packages(&spec, debian(), &[role], &[]));
    insta::assert_snapshot!(Role::ALL.map(of).join("\n"), @r"
    ca-certificates dbus iproute2 libpmix2 mariadb-server munge nftables openssh-server procps slurm-client slurm-wlm-mysql-plugin slurmctld slurmdbd sudo
    ca-certificates dbus iproute2 less munge nftables openssh-server procps slurm-client sudo
    ca-certificates dbus iproute2 libpam-slurm libpmix2 munge nftables openssh-server procps slurm-client slurmd sudo
    ");
}

#[test]
fn el_has_other_names_for_some_of_it() {
    let el = Family::of_system(System::El("rocky9"));
    let of = |role| list(packages(&spec(OPENSTACK), el, &[role], &[]));
    insta::assert_snapshot!(Role::ALL.map(of).join("\n"), @r"
    ca-certificates chrony dbus iproute mariadb-server munge nfs-utils nftables openssh-server pmix procps-ng slurm slurm-slurmctld slurm-slurmdbd sudo
    ca-certificates chrony dbus iproute less munge nfs-utils nftables openssh-server procps-ng slurm sudo
    ca-certificates chrony dbus iproute munge nfs-utils nftables openssh-server pmix procps-ng slurm slurm-pam_slurm slurm-slurmd sudo
    ");
    let (enabled, disabled) = units_of_image(el);
    assert_eq!(enabled, ["sshd.service"]);
    assert!(disabled.contains(&"firewalld.service") && disabled.contains(&"slurmd.service"), "{disabled:?}");
    let system = checks(&spec(LOCAL), Role::Compute, el).swap_remove(0);
    assert_eq!((system.service.as_str(), system.questions.len()), ("system", 2));
}

#[test]
fn what_only_some_clouds_need_is_installed_there_alone() {
    let (local, openstack) = (spec(LOCAL), spec(OPENSTACK));
    let on_top = |spec: &Spec, role| list(packages(spec, debian(), &[role], &Role::ALL));
    assert_eq!(on_top(&local, Role::Control), "");
    assert_eq!(on_top(&openstack, Role::Control), "chrony nfs-common nfs-kernel-server");
    assert_eq!(on_top(&openstack, Role::Compute), "chrony libpam-slurm-adopt nfs-common");
    let of_clouds = |roles: &[Role]| list(packages_of_clouds(debian(), roles));
    assert_eq!(of_clouds(&[Role::Compute]), "chrony libpam-slurm libpam-slurm-adopt nfs-common");
    assert_eq!(of_clouds(&[Role::Control]), "chrony nfs-common nfs-kernel-server");
    assert_eq!(of_clouds(&[]), "");
}

/// An image, and a disk that is made from it for any cloud.
#[test]
fn what_the_file_asks_for_is_in_images_of_such_clusters_alone() {
    let asking = spec(&format!(
        "{LOCAL}\n[slurm]\nrest = true\n[monitoring]\n[monitoring.webhook.a]\naddress = \"http://a\""
    ));
    let on_top = |spec: &Spec, role| list(packages(spec, debian(), &[role], &Role::ALL));
    assert_eq!(
        on_top(&asking, Role::Control),
        "nginx prometheus prometheus-alertmanager prometheus-node-exporter slurm-wlm-jwt-plugin slurmrestd"
    );
    assert_eq!(on_top(&asking, Role::Login), "prometheus-node-exporter");
    let of_clouds = list(packages_of_clouds(debian(), &Role::ALL));
    assert!(!of_clouds.contains("prometheus") && !of_clouds.contains("slurmrestd"), "{of_clouds}");
    // Nobody is told of alerts.
    let quiet = on_top(&spec(&format!("{LOCAL}\n[monitoring]")), Role::Control);
    assert_eq!(quiet, "prometheus prometheus-node-exporter");
}

#[test]
fn nodes_with_clocks_keep_them_in_step() {
    let check = |cloud: &str, role| {
        checks(&spec(cloud), role, debian()).into_iter().find(|check| check.service == "time")
    };
    for role in Role::ALL {
        assert!(check(LOCAL, role).is_none(), "{role:?}");
        let check = check(OPENSTACK, role).unwrap();
        assert_eq!((check.units, check.questions.len()), (vec!["chrony.service".to_string()], 1));
    }
}

#[test]
fn an_image_starts_nothing_but_sshd() {
    let (enabled, mut disabled) = units_of_image(debian());
    assert_eq!(enabled, ["ssh.service"]);
    disabled.sort_unstable();
    assert_eq!(
        disabled,
        [
            "grafana-server.service",
            "kiln-backup.timer",
            "kiln-rest.service",
            "kilnd.service",
            "mariadb.service",
            "munge.service",
            "nfs-server.service",
            "nftables.service",
            "nginx.service",
            "prometheus-alertmanager.service",
            "prometheus-node-exporter.service",
            "prometheus.service",
            "slurmctld.service",
            "slurmd.service",
            "slurmdbd.service",
            "slurmrestd.service",
        ]
    );
}

#[test]
fn a_daemon_is_stopped_before_what_it_writes_to() {
    let expected = ["slurmctld.service", "slurmdbd.service", "mariadb.service"];
    let local = spec(LOCAL);
    assert_eq!(units_to_stop(&local, Role::Control, debian()), expected);
    assert_eq!(units_to_stop(&local, Role::Login, debian()), [""; 0]);
    assert_eq!(units_to_stop(&external(), Role::Control, debian()), ["slurmctld.service"]);
}

/// With a slurmdbd of the site.
fn external() -> Spec {
    spec(&format!("{LOCAL}\n[accounting]\nhost = \"dbd.example.org\""))
}

#[test]
fn a_slurmdbd_of_the_site_needs_no_other_image_and_is_asked_from_control() {
    let packages_of = |spec: &Spec| list(packages(spec, debian(), &Role::ALL, &[]));
    assert_eq!(packages_of(&external()), packages_of(&spec(LOCAL)));
    let checks = checks(&external(), Role::Control, debian());
    assert!(!checks.iter().any(|check| check.service == "accounting"), "{checks:?}");
    let asked = checks.iter().find(|check| check.service == "external accounting").expect("the service");
    assert_eq!(asked.units, [""; 0]);
    assert_eq!(asked.questions[0].otherwise, "slurmdbd at dbd.example.org:6819 does not answer");
    assert_eq!(given_secrets(&external()), ["munge-key"]);
    assert_eq!(given_secrets(&spec(LOCAL)), [""; 0]);
    assert_eq!(given_secrets(&with_directory(SITE_DIRECTORY)), ["directory-bind-password"]);
}

#[test]
fn a_node_is_asked_for_what_its_role_has() {
    let asked = |spec: &Spec, role| {
        let checks = checks(spec, role, debian()).into_iter().map(|check| {
            let questions = check.questions.iter().map(|q| format!("{}?", q.command.join(" ")));
            let all: Vec<String> = check.units.iter().cloned().chain(questions).collect();
            format!("{}: {}", check.service, all.join(", "))
        });
        checks.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(Role::ALL.map(|role| asked(&spec(LOCAL), role)).join("\n\n"), @r"
    storage: mountpoint /var/lib/state?, mountpoint /home?, mountpoint /srv/kiln/share?
    journal: systemd-journald.service
    munge: munge.service, sh -c munge --no-input | unmunge --output=/dev/null?
    metadata: kiln-metadata.service
    sshd: ssh.service, sshd -t?
    accounting: mariadb.service, slurmdbd.service, mariadb --defaults-extra-file=/etc/kiln/database.cnf --execute=select 1 slurm_acct_db?, sacctmgr --noheader show cluster?
    slurmctld: slurmctld.service, scontrol ping?
    kilnd: kilnd.service
    checkup: kiln-checkup.timer
    backup: kiln-backup.timer, kiln node backup check?

    storage: mountpoint /home?
    journal: systemd-journald.service
    munge: munge.service, sh -c munge --no-input | unmunge --output=/dev/null?
    metadata: kiln-metadata.service
    sshd: ssh.service, sshd -t?
    slurm: scontrol ping?
    checkup: kiln-checkup.timer
    report: kiln-report.socket

    storage: mountpoint /home?
    journal: systemd-journald.service
    munge: munge.service, sh -c munge --no-input | unmunge --output=/dev/null?
    metadata: kiln-metadata.service
    sshd: ssh.service, sshd -t?
    slurmd: slurmd.service
    ");
    let exports = checks(&spec(OPENSTACK), Role::Control, debian());
    let exports = exports.iter().find(|check| check.service == "nfs server").expect("the service");
    let shown: Vec<&str> = exports.questions.iter().map(|q| q.shows.as_str()).collect();
    assert_eq!(shown, ["/home ", "/srv/kiln/share "]);
}

/// With a directory on control, and with one of the site.
fn with_directory(table: &str) -> Spec {
    spec(&format!("{LOCAL}\n[directory]\n{table}"))
}

const SITE_DIRECTORY: &str =
    "kind = \"ldap\"\nuri = [\"ldaps://a\"]\nbase = \"dc=a\"\nbind_dn = \"cn=kiln,dc=a\"";

#[test]
fn only_images_of_files_that_ask_for_a_directory_have_its_software() {
    let (plain, own, site) =
        (spec(LOCAL), with_directory("kind = \"server\""), with_directory(SITE_DIRECTORY));
    let of = |spec: &Spec, role| list(packages(spec, debian(), &[role], &Role::ALL));
    let client = "ldap-utils libnss-sss libpam-sss libsss-sudo sssd-ldap sssd-tools";
    assert_eq!(of(&plain, Role::Control), "");
    assert_eq!(of(&own, Role::Control), format!("389-ds-base {client}"));
    assert_eq!(of(&own, Role::Login), client);
    assert_eq!(of(&site, Role::Control), client);
    assert!(!list(packages_of_clouds(debian(), &Role::ALL)).contains("sss"));
    let secrets = |spec: &Spec| {
        let all = secrets_of(spec).into_iter().map(|secret| secret.name);
        all.filter(|name| name.starts_with("directory") || *name == "cluster-ca").collect::<Vec<_>>()
    };
    assert_eq!(secrets(&plain), [""; 0]);
    assert_eq!(secrets(&own), ["cluster-ca", "directory-certificate", "directory-password"]);
    assert_eq!(secrets(&site), ["directory-bind-password"]);
}

#[test]
fn every_node_is_asked_whether_it_reaches_the_directory() {
    let asked = |spec: &Spec, role| {
        let checks = checks(spec, role, debian());
        let check = checks.into_iter().find(|check| check.service == "directory").expect("the service");
        assert_eq!(check.units, ["sssd.service"]);
        check.questions[0].command.join(" ")
    };
    let own = asked(&with_directory("kind = \"server\""), Role::Compute);
    assert_eq!(
        own,
        "env LDAPTLS_REQCERT=demand LDAPTLS_CACERT=/etc/kiln/directory-ca.pem ldapsearch -x -LLL -o nettimeout=5 \
         -H ldaps://control.demo.internal -s base -b dc=demo,dc=internal 1.1"
    );
    let site = asked(&with_directory(SITE_DIRECTORY), Role::Login);
    assert!(
        site.contains("-D cn=kiln,dc=a -y /etc/kiln/directory-password") && !site.contains("CACERT"),
        "{site}"
    );
}

#[test]
fn a_certificate_is_made_for_the_dashboard_where_the_site_has_none() {
    let file = |more: &str| {
        let text = format!(
            "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\n{more}"
        );
        let files = |_: &str| Ok(b"-----BEGIN CERTIFICATE-----\n".to_vec());
        kiln_spec::parse_with_files(&text, "f", &files).unwrap_or_else(|e| panic!("{e}")).0
    };
    let made = |spec: &Spec| secrets_of(spec).iter().any(|secret| secret.name == "dashboard-certificate");
    let asked = |spec: &Spec| {
        let checks = checks(spec, Role::Control, debian());
        let check = checks.into_iter().find(|check| check.service == "dashboard");
        check.map(|check| check.questions[0].command.join(" "))
    };
    let (none, own) = (file(""), file("[dashboard]\nfrom = [\"192.0.2.0/24\"]\n"));
    assert!(!made(&none) && made(&own) && asked(&none).is_none());
    assert!(asked(&own).unwrap().contains("-verify_return_error"));
    let site = "[dashboard]\nfrom = [\"192.0.2.0/24\"]\ncertificate = \"c.pem\"\nkey = \"file:k\"\n";
    assert!(!made(&file(site)) && !asked(&file(site)).unwrap().contains("-verify_return_error"));
}

#[test]
fn only_ssh_is_open_to_others() {
    assert_eq!(ports(OpenTo::Everyone), [22]);
    assert_eq!(ports(OpenTo::Network), [22]);
}

#[test]
fn names_are_used_once() {
    let unique = |mut names: Vec<&str>| {
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
    };
    for role in Role::ALL {
        unique(of(role).iter().map(|service| service.name).collect());
    }
    unique(all().into_iter().flat_map(|service| service.units).map(|unit| unit.name).collect());
    unique(secrets().into_iter().map(|secret| secret.name).collect());
}

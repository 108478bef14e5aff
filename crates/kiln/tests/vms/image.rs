//! Images that are built on a server of the cloud.

use crate::lab::{Lab, wait};
use crate::renewal::server;
use crate::repository::{Package, Repository};

const TOOL: Package =
    Package { name: "kiln-test-tool", version: "1.0", file: ("/usr/share/kiln-test/tool", "of-the-site") };

/// As in the table of the page about OpenStack.
pub fn beside_cloud_init(lab: &Lab) {
    for node in ["control", "login-0", "standard-1"] {
        let seen = lab.on(
            node,
            "cloud-init status --wait; hostname; networkctl --no-pager status eth0 | grep 'Network File'; \
             getent passwd debian || echo no user of cloud-init; ls /etc/ssh/ssh_host_*_key; \
             df --output=size -BM / | tail -1; findmnt -no SOURCE /; cat /etc/hosts",
        );
        println!("{seen}");
        let lines: Vec<&str> = seen.lines().map(str::trim).collect();
        assert!(lines.contains(&"status: done") && lines.contains(&node), "{seen}");
        assert!(seen.contains("/run/systemd/network/10-netplan-eth0.network"), "{seen}");
        assert!(lines.contains(&"no user of cloud-init"), "{seen}");
        // The one that Kiln knows: `lab.on` would not have come here by another.
        let keys: Vec<_> = lines.iter().filter(|line| line.starts_with("/etc/ssh/ssh_host_")).collect();
        assert_eq!(keys, [&"/etc/ssh/ssh_host_ed25519_key"], "{seen}");
        let size = lines.iter().find_map(|line| line.strip_suffix('M')?.parse::<u32>().ok());
        assert!(size.is_some_and(|size| size > 3700), "the file system is as large as its disk: {seen}");
    }
}

/// One package from a repository of the site, and a command, upon the image of the nodes. An elastic node then boots from it.
pub fn built(lab: &Lab) {
    let repository = Repository::new();
    repository.publish_current("site", "stable", &[TOOL]);
    std::fs::write(lab.path("site.asc"), repository.key()).expect("the key");
    let file = lab.read_file();
    let tables = format!(
        "\n[source.site]\naddress = \"{}/site\"\nsuites = [\"stable\"]\nkey = \"site.asc\"\n\n\
         [image.extra]\nsource = \"default\"\nsources = [\"site\"]\npackages = [\"{}\"]\n\
         commands = [\"echo built >/etc/which-image\"]\n",
        repository.address, TOOL.name
    );
    let burst = "nodes = \"burst-0\"\nflavor = \"vm.1536\"\nimage = \"default\"";
    assert!(file.contains(burst), "{file}");
    lab.write_file(&format!("{}{tables}", file.replace(burst, &burst.replace("default", "extra"))));
    let built = lab.json(&["image", "build", "extra"]);
    let name = built[0]["name"].as_str().expect("a name").to_string();
    println!("  {}", built[0]);
    let servers = crate::project::openstack(&["server list"]).remove(0).to_string();
    assert!(!servers.contains("build"), "{servers}");
    assert!(lab.json(&["image", "show", &name]).to_string().contains(TOOL.name));
    // As the server has left it when it was shut down.
    assert!(lab.kiln(&["image", "check", &name]).contains("clean and complete"));
    lab.kiln(&["up", "--yes"]);
    let job = lab.as_user(
        "sbatch --parsable --partition=burst --mem=50 --output=extra.out \
         --wrap 'hostname; cat /etc/which-image /usr/share/kiln-test/tool'",
    );
    wait("the job on a node of that image is over", || {
        lab.as_user(&format!("sacct -nXP -j {job} -o state")) == "COMPLETED"
    });
    assert_eq!(lab.as_user("cat extra.out"), "burst-0\nbuilt\nof-the-site");
    wait("the node is deleted when idle", || server("burst-0").is_none());
    lab.write_file(&file);
    lab.kiln(&["up", "--yes"]);
    lab.kiln(&["image", "delete", &name, "--yes"]);
}

//! Who may connect to login nodes.

use crate::lab::{Lab, openstack};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n";

/// The networks that Neutron lets in to SSH, in order.
fn let_in() -> Vec<String> {
    let group = openstack(&["security group show fence-login"]).remove(0);
    let rules = group["rules"].as_array().unwrap().iter();
    let ssh = rules.filter(|rule| rule["direction"] == "ingress" && rule["port_range_min"] == 22);
    let mut all: Vec<String> = ssh.map(|rule| rule["remote_ip_prefix"].as_str().unwrap().into()).collect();
    all.sort();
    all
}

#[test]
fn ssh_is_open_to_whom_the_file_names() {
    let lab = Lab::new("fence", GROUPS);
    lab.kiln(&["apply", "--yes"]);
    assert_eq!(let_in(), ["0.0.0.0/0"]);

    let before = "external_network = \"public\"\n";
    let after = format!("{before}ssh_from = [\"192.0.2.0/24\", \"198.51.100.7/32\"]\n");
    lab.edit(before, &after);
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("SSH from 192.0.2.0/24, 198.51.100.7/32, no longer from anywhere"), "{plan}");
    lab.kiln(&["apply", "--yes"]);
    assert_eq!(let_in(), ["192.0.2.0/24", "198.51.100.7/32"]);
    assert!(lab.kiln(&["plan"]).contains("Nothing to do."));

    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
}

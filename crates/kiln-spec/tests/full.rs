//! Right files, and all that they come to.

fn spec(text: &str) -> String {
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    serde_json::to_string_pretty(&spec).expect("JSON")
}

#[test]
fn every_key() {
    insta::assert_snapshot!(spec(include_str!("full.toml")));
}

#[test]
fn the_smallest_file_and_its_defaults() {
    insta::assert_snapshot!(spec(
        "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.b]\nnodes = \"b1\"\n[compute.a]\nnodes = \"a1\"\n"
    ));
}

/// They are a mount like others, before those that may lie below it.
#[test]
fn homes_on_a_file_server() {
    let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\n\
                [volumes]\nhome = { mode = \"nfs\", source = \"filer:/home\", options = [\"vers=4.2\"] }\n\
                [[mount]]\nsource = \"filer:/projects\"\npath = \"/home/projects\"\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(spec.volumes.home, kiln_spec::Volume::None);
    let [home, projects] = spec.mounts.as_slice() else { panic!("{:?}", spec.mounts) };
    assert_eq!((home.path.as_str(), home.required, home.roles.len()), ("/home", true, 3));
    assert_eq!(
        (projects.path.as_str(), projects.required, projects.roles.len()),
        ("/home/projects", false, 2)
    );
}

/// Jobs would write to root disks where it cannot be mounted.
#[test]
fn homes_of_another_kind_are_required() {
    let required = |more: &str| {
        let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\n\
                    [volumes]\nhome = \"none\"\n[[mount]]\nsource = \"mon:/\"\npath = \"/home\"\ntype = \"ceph\"\n";
        let spec =
            kiln_spec::parse(&format!("{text}{more}"), "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
        spec.mounts[0].required
    };
    assert!(required(""));
    assert!(!required("automount = true\n"));
}

#[test]
fn a_group_stands_where_its_own_header_is() {
    let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.b.override.b1]\nflavor = \"x\"\n\
                [compute.a]\nnodes = \"a1\"\n[compute.b]\nnodes = \"b1\"\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(spec.compute.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn no_rebuild_partition_if_apply_rebuilds_all() {
    let text = "[cluster]\nname = \"demo\"\n[cloud]\nkind = \"local\"\n[compute.a]\nnodes = \"a1\"\nimage_update = \"apply\"\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(spec.rebuild, []);
}

#[test]
fn a_cluster_on_openstack() {
    let text = "[cluster]\nname = \"demo\"\n\n[cloud]\nkind = \"openstack\"\ncloud = \"lab\"\nregion = \"north\"\n\
        network = \"research\"\nsubnet = \"10.7.0.0/20\"\nexternal_network = \"public\"\nkey_pair = \"ada\"\n\
        availability_zone = \"nova\"\nroot_disk = { size = \"20 GiB\", type = \"ssd\" }\n\
        server_group = \"soft-anti-affinity\"\nsecurity_groups = [\"monitoring\"]\n\n\
        [image.base]\nprebuilt = \"kiln-fat-7\"\n[image.default]\nsource = \"base\"\npackages = [\"htop\"]\n\
        [image.own]\nsource = \"debian-12-genericcloud\"\n\n\
        [compute.standard]\nnodes = \"standard-[0-1]\"\nflavor = \"hpc.64\"\n";
    let spec = kiln_spec::parse(text, "cluster.toml").unwrap_or_else(|e| panic!("{e}"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&(&spec.cloud, &spec.images)).expect("JSON"));
}

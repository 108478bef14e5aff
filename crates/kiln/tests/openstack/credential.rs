//! What the control node logs in with: the least of what the person at the deploy host may do, or the site's own.

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::control_node::{ControlNode, fleet_file};
use crate::lab::{Administrator, Lab, attempt, client, openstack, openstack_as, own_project, services, tell};

const GROUPS: &str = "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n\n\
    [compute.burst]\nnodes = \"burst-0\"\nflavor = \"tiny\"\nelastic = { idle = \"15m\" }\n";

/// The client writes its keys this way and that.
fn value<'v>(shown: &'v Value, key: &str) -> &'v Value {
    let written = shown.as_object().unwrap().iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
    written.unwrap_or_else(|| panic!("no {key} in {shown}")).1
}

fn roles(credential: &str) -> Vec<String> {
    let shown = openstack(&[&format!("application credential show {credential}")]).remove(0);
    let all = value(&shown, "roles").as_array().unwrap();
    let mut names: Vec<String> = all.iter().map(|role| role["name"].as_str().unwrap().to_string()).collect();
    names.sort();
    names
}

/// Keystone adds what the role implies.
const LEAST: [&str; 2] = ["member", "reader"];

fn credentials() -> Vec<String> {
    let rows = openstack(&["application credential list"]).remove(0);
    let mut names: Vec<String> =
        rows.as_array().unwrap().iter().map(|row| row["Name"].as_str().unwrap().to_string()).collect();
    names.sort();
    names
}

/// The one that Kiln makes for the control node.
fn of_kiln() -> String {
    credentials().into_iter().find(|name| name.starts_with("kiln_rights_")).expect("one of Kiln's")
}

/// Another project of the same person, with a credential as Kiln makes them. Both go when this is dropped.
struct Elsewhere;

impl Elsewhere {
    fn new(lab: &Lab) -> Elsewhere {
        let (own, clouds) = (own_project(), lab.path("elsewhere.yaml"));
        openstack_as("admin", &["project create --or-show elsewhere"]);
        let made = Elsewhere;
        tell("admin", &[&format!("role add --user {own} --project elsewhere member")]);
        let text = std::fs::read_to_string(services()).unwrap();
        let text = text.replace(&format!("project_name: {own}"), "project_name: elsewhere");
        std::fs::write(&clouds, text).unwrap();
        let create = ["application", "credential", "create", "kiln_rights", "--description"];
        let mut command = client();
        command.args(create).arg("kiln_cluster=rights kiln_grant=0123456789abcdef");
        let output = command.env("OS_CLIENT_CONFIG_FILE", &clouds).env("OS_CLOUD", "demo").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        made
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        attempt("demo", &["application credential delete kiln_rights"]);
        attempt("admin", &["project delete elsewhere"]);
    }
}

fn servers() -> Vec<String> {
    let rows = openstack(&["server list --tags kiln_cluster=rights"]).remove(0);
    let mut names: Vec<String> =
        rows.as_array().unwrap().iter().map(|row| row["Name"].as_str().unwrap().to_string()).collect();
    names.sort();
    names
}

/// All that kilnd does in a cloud: a server with its port comes, one is rebuilt, the first goes.
fn kilnd_works(lab: &Lab, image: &str) {
    let control = ControlNode::of(lab);
    control.nodes_are(&["burst-0"], "ALLOCATED+CLOUD+POWERING_UP");
    control.power_up("burst-0");
    control.settle();
    assert_eq!(servers(), ["burst-0", "control", "login-0", "standard-0"]);
    control.reboot("standard-0");
    control.settle();
    let rows = openstack(&["server list --long --tags kiln_cluster=rights --name ^standard-0$"]).remove(0);
    assert_eq!(rows[0]["Image Name"], image, "{rows}");
    control.nodes_are(&["burst-0"], "IDLE+CLOUD+POWERING_DOWN");
    control.power_down("burst-0");
    control.settle();
    assert_eq!(servers(), ["control", "login-0", "standard-0"]);
    control.end();
}

/// The services' own `clouds.yaml`, which Kiln and what this test does in Kiln's place read alike, with a further entry for
/// the time of the test.
struct Clouds(String);

impl Clouds {
    fn new() -> Clouds {
        Clouds(std::fs::read_to_string(services()).unwrap())
    }

    fn extend(&self, entry: &str) {
        std::fs::write(services(), format!("{}{entry}", self.0)).unwrap();
    }
}

impl Drop for Clouds {
    fn drop(&mut self) {
        let _ = std::fs::write(services(), &self.0);
    }
}

fn as_administrator(arguments: &[&str]) {
    let output =
        client().args(arguments).env("OS_CLIENT_CONFIG_FILE", services()).env("OS_CLOUD", "demo").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_control_node_gets_the_least_that_works() {
    let lab = Lab::in_subnet("10.44.0.", "rights", GROUPS);
    lab.undo_with(
        "demo",
        &["application credential delete of-the-site", "application credential delete kiln_rights"],
    );
    let administrator = Administrator::begin();
    lab.kiln(&["apply"]);
    assert_eq!(roles(&of_kiln()), LEAST);

    // A cluster of the same name in another project has one of the same person.
    let elsewhere = Elsewhere::new(&lab);
    lab.kiln(&["secrets", "rotate", "cloud-token"]);
    lab.kiln(&["apply"]);
    assert_eq!(credentials(), ["kiln_rights".to_string(), of_kiln()]);
    drop(elsewhere);

    // As an earlier release left it: kilnd goes on logging in by this name.
    let token = std::fs::read_to_string(lab.path(".kiln/secrets/cloud-token")).unwrap();
    tell("demo", &[&format!("application credential delete {}", of_kiln())]);
    let old = ["--description", "kiln_cluster=rights kiln_grant=0123456789abcdef", "--secret", token.trim()];
    as_administrator(&[&["application", "credential", "create", "kiln_rights"], &old[..]].concat());
    assert!(roles("kiln_rights").contains(&"admin".to_string()));
    assert!(lab.kiln(&["apply"]).contains("Nothing to do."));
    assert_eq!(roles("kiln_rights"), LEAST);
    assert_eq!(credentials(), ["kiln_rights"]);
    lab.edit("prebuilt = \"image-a\"", "prebuilt = \"image-b\"");
    lab.kiln(&["apply", "--yes"]);
    kilnd_works(&lab, "image-b");

    // The site's own: told early if it cannot serve, and left alone at the end.
    lab.edit("cloud = \"demo\"\n", "cloud = \"demo\"\ncontrol_credential = \"control\"\n");
    let clouds = Clouds::new();
    let own = |id: &str| {
        clouds.extend(&format!(
            "  control:\n    region_name: RegionOne\n    auth:\n      auth_url: http://127.0.0.1:5000/v3\n      \
             application_credential_id: {id}\n      application_credential_secret: lab\n"
        ));
    };
    let said = lab.refused(&["plan"]);
    assert!(said.contains("there is no cloud `control` in clouds.yaml"), "{said}");
    lab.edit("control_credential = \"control\"", "control_credential = \"admin\"");
    let said = lab.refused(&["plan"]);
    assert!(said.contains("`control_credential` must be an application credential"), "{said}");
    lab.edit("control_credential = \"admin\"", "control_credential = \"control\"");
    own("0123456789abcdef");
    let said = lab.refused(&["plan"]);
    assert!(said.contains("application credential 0123456789abcdef; cloud `control` of"), "{said}");

    let made = openstack(&["application credential create --role member --secret lab of-the-site"]).remove(0);
    own(value(&made, "id").as_str().unwrap());
    assert!(lab.kiln(&["apply"]).contains("Nothing to do."));
    assert_eq!(credentials(), ["of-the-site"], "the one that Kiln made is gone");
    let file: Value = serde_json::from_str(&fleet_file(&Runtime::new().unwrap(), &lab)).unwrap();
    assert_eq!((&file["cloud"]["credential"], &file["cloud"]["user_id"]), (value(&made, "id"), &Value::Null));
    lab.edit("prebuilt = \"image-b\"", "prebuilt = \"image-a\"");
    lab.kiln(&["apply", "--yes"]);
    kilnd_works(&lab, "image-a");
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
    assert_eq!(credentials(), ["of-the-site"]);
    tell("demo", &["application credential delete of-the-site"]);
    drop(administrator);
}

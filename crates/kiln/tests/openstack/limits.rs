//! What the control node's credential is good for, and what not.

use kiln_cloud::{Class, Cloud, Labels, NewVolume};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::control_node::fleet_file;
use crate::lab::{Lab, client, openstack};

#[test]
fn the_control_nodes_credential_is_limited() {
    let lab = Lab::new("limits", "[compute.standard]\nnodes = \"standard-0\"\nflavor = \"tiny\"\n");
    lab.kiln(&["apply"]);
    let runtime = Runtime::new().unwrap();
    let file: Value = serde_json::from_str(&fleet_file(&runtime, &lab)).unwrap();
    let access = serde_json::from_value(file["cloud"].clone()).unwrap();
    let cloud = Cloud::at(&access).unwrap();
    runtime.block_on(async {
        // kilnd's part.
        assert_eq!(cloud.instances("limits").await.unwrap().len(), 3);
        // Not kilnd's part.
        let volume = NewVolume { name: "limits-x".into(), size_gib: 1, labels: Labels::new() };
        let refused = cloud.create_volume(volume).await.unwrap_err();
        assert_eq!(refused.class, Class::NoRights, "{refused}");
        let refused = cloud.grant("limits", "other").await.unwrap_err();
        assert_eq!(refused.class, Class::NoRights, "{refused}");
    });
    // Neither with the official client.
    let with_credential = |arguments: &[&str]| {
        let text = |key: &str| file["cloud"][key].as_str().unwrap().to_string();
        client()
            .args(arguments)
            .env_remove("OS_CLOUD")
            .env_remove("OS_CLIENT_CONFIG_FILE")
            .env("OS_AUTH_TYPE", "v3applicationcredential")
            .env("OS_AUTH_URL", text("auth_url"))
            .env("OS_USER_ID", text("user_id"))
            .env("OS_APPLICATION_CREDENTIAL_NAME", text("credential"))
            .env("OS_APPLICATION_CREDENTIAL_SECRET", text("secret"))
            .output()
            .unwrap()
    };
    let allowed = with_credential(&["flavor", "list"]);
    assert!(allowed.status.success(), "{}", String::from_utf8_lossy(&allowed.stderr));
    let refused = with_credential(&["security", "group", "create", "limits-x"]);
    assert!(!refused.status.success());

    // The secret changes, and with it the credential; then it goes.
    lab.kiln(&["secrets", "rotate", "cloud-token"]);
    // At the same time a volume that control has is to grow.
    lab.edit("nodes = \"standard-0\"", "nodes = \"standard-[0-1]\"");
    lab.write_file(&format!("{}\n[volumes]\nhome = {{ size = \"12 GiB\" }}\n", lab.read_file()));
    let plan = lab.kiln(&["plan"]);
    assert!(plan.contains("~ volume limits-home: extend, 10 -> 12 GiB"), "{plan}");
    lab.kiln(&["apply"]);
    let home = openstack(&["volume show limits-home"]).remove(0);
    let control = openstack(&["server show control"]).remove(0);
    assert_eq!((&home["size"], &home["status"]), (&Value::from(12), &Value::from("in-use")), "{home}");
    assert_eq!(home["attachments"][0]["server_id"], control["id"], "it stays where it is");
    let refused = with_credential(&["flavor", "list"]);
    assert!(!refused.status.success(), "the old secret is good for nothing");
    let renewed = serde_json::from_str::<Value>(&fleet_file(&runtime, &lab)).unwrap()["cloud"].clone();
    let cloud = Cloud::at(&serde_json::from_value(renewed).unwrap()).unwrap();
    runtime.block_on(async { assert_eq!(cloud.instances("limits").await.unwrap().len(), 4) });
    lab.kiln(&["destroy", "--yes"]);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
    assert_eq!(openstack(&["application credential list"])[0], serde_json::json!([]));
}

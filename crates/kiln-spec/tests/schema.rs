//! The schema that editors use is the one the code has.

use std::path::Path;

use kiln_spec::schema;

#[test]
fn the_checked_in_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cluster.schema.json");
    if std::env::var_os("KILN_UPDATE").is_some() {
        let text = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
        std::fs::write(&path, text).expect("write the schema");
    }
    // Compared as values: the order of keys depends on what else is built with serde_json.
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let checked_in: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    assert!(
        checked_in == Some(schema()),
        "cluster.schema.json is out of date: run the tests with KILN_UPDATE=1"
    );
}

/// The reader names the keys it knows in its error about an unknown one; the schema must have the same.
#[test]
fn the_schema_has_the_readers_keys() {
    for (table, at) in [
        ("", "/properties"),
        ("[cluster]", "/properties/cluster/properties"),
        ("[cloud]", "/properties/cloud/properties"),
        (
            "[cloud]\nkind = \"openstack\"\n[cloud.root_disk]",
            "/properties/cloud/properties/root_disk/properties",
        ),
        ("[control]", "/properties/control/properties"),
        ("[volumes]", "/properties/volumes/properties"),
        ("[volumes.state]", "/properties/volumes/properties/state/oneOf/0/properties"),
        ("[slurm]", "/properties/slurm/properties"),
        ("[role]", "/properties/role/properties"),
        ("[role.login]", "/properties/role/properties/login/properties"),
        ("[[role.login.file]]", "/properties/role/properties/login/properties/file/items/properties"),
        ("[image.a]", "/properties/image/additionalProperties/properties"),
        ("[login.a]", "/properties/login/additionalProperties/properties"),
        (
            "[login.a.override.b]",
            "/properties/login/additionalProperties/properties/override/additionalProperties/properties",
        ),
        ("[compute.a]", "/properties/compute/additionalProperties/properties"),
        (
            "[compute.a.override.b]",
            "/properties/compute/additionalProperties/properties/override/additionalProperties/properties",
        ),
        ("[partition.a]", "/properties/partition/additionalProperties/properties"),
        ("[rebuild.a]", "/properties/rebuild/additionalProperties/properties"),
        ("[user.a]", "/properties/user/additionalProperties/properties"),
    ] {
        let errors = kiln_spec::parse(&format!("{table}\nno_such_key = 1\n"), "f").expect_err("unknown key");
        let unknown = errors.iter().find(|d| d.code == "unknown-key").expect(table);
        let expected = unknown.expected.as_deref().expect("the known keys");
        let mut reader: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        reader.sort_unstable();
        let schema = schema();
        let properties = schema.pointer(at).and_then(|v| v.as_object()).expect(at);
        let mut keys: Vec<&str> = properties.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(reader, keys, "{table}");
        for (key, value) in properties {
            assert!(
                value["description"].as_str().is_some_and(|text| !text.is_empty()),
                "{table} {key} has no description"
            );
        }
    }
}

use super::*;

impl Login {
    /// Somebody who logs in nowhere.
    pub fn test(auth_url: &str) -> Login {
        let scope = Scope { project: Named::Name("p".into()), domain: Named::Id("default".into()) };
        Login {
            auth_url: auth_url.into(),
            identity: Identity::Token { token: "t".into(), scope },
            region: None,
            interface: "public".into(),
            ca_bundle: None,
            verify: true,
            origin: "the test".into(),
            overrides: BTreeMap::new(),
        }
    }
}

const CLOUDS: &str = "
clouds:
  lab:
    region_name: north
    interface: internal
    verify: false
    auth:
      auth_url: https://id.example.org:5000
      username: ada
      password: \"s3:cret\"
      project_name: hpc
      user_domain_name: Default
      project_domain_name: Default
  robot:
    auth_type: v3applicationcredential
    auth:
      auth_url: https://id.example.org/identity/v3/
      application_credential_id: abc
      application_credential_secret: s3cret
  named-robot:
    auth:
      auth_url: https://id.example.org/v2.0
      application_credential_name: kiln
      application_credential_secret: s3cret
      user_id: 17
  half:
    auth:
      auth_url: https://id.example.org
      username: ada
  odd:
    auth_type: v3oidcpassword
    auth: { auth_url: https://id.example.org, username: ada, password: x, project_name: p }
";

fn find(name: &str, files: &[(&str, &str)]) -> Result<Login> {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in files {
        std::fs::write(dir.path().join(file), text).unwrap();
    }
    let path = |file: &str| Some(dir.path().join(file).display().to_string());
    let environment = |variable: &str| match variable {
        "OS_CLIENT_CONFIG_FILE" => path("clouds.yaml"),
        "OS_CLIENT_SECURE_FILE" => path("secure.yaml"),
        _ => None,
    };
    from_files(name, &environment)
}

fn told(name: &str, text: &str) -> String {
    match find(name, &[("clouds.yaml", text)]) {
        Ok(_) => "no error".into(),
        // The directory is another one each time.
        Err(error) => {
            error.to_string().split("/tmp/").next().unwrap().to_string()
                + error.to_string().split("clouds.yaml").nth(1).unwrap_or_default()
        }
    }
}

#[test]
fn a_password_is_sent_with_its_project() {
    let login = find("lab", &[("clouds.yaml", CLOUDS)]).ok().unwrap();
    assert_eq!(login.auth_url, "https://id.example.org:5000/v3");
    assert_eq!((login.region.as_deref(), login.interface.as_str()), (Some("north"), "internal"));
    assert!(!login.verify);
    let request = login.request();
    let user = &request["auth"]["identity"]["password"]["user"];
    assert_eq!(*user, json!({ "name": "ada", "domain": { "name": "Default" }, "password": "s3:cret" }));
    let project = &request["auth"]["scope"]["project"];
    assert_eq!(*project, json!({ "name": "hpc", "domain": { "name": "Default" } }));
    assert!(!login.whose().contains("s3:cret"));
}

#[test]
fn an_application_credential_has_its_scope_in_itself() {
    let login = find("robot", &[("clouds.yaml", CLOUDS)]).ok().unwrap();
    assert_eq!(login.auth_url, "https://id.example.org/identity/v3");
    let request = login.request();
    assert!(request["auth"].get("scope").is_none());
    assert_eq!(
        request["auth"]["identity"]["application_credential"],
        json!({ "id": "abc", "secret": "s3cret" })
    );
    let named = find("named-robot", &[("clouds.yaml", CLOUDS)]).ok().unwrap();
    assert_eq!(named.auth_url, "https://id.example.org/v3");
    let body = &named.request()["auth"]["identity"]["application_credential"];
    assert_eq!(*body, json!({ "name": "kiln", "secret": "s3cret", "user": { "id": "17" } }));
}

#[test]
fn secrets_may_stand_in_a_file_of_their_own() {
    let secure = "clouds:\n  half:\n    auth:\n      password: hidden\n      project_id: p1\n";
    let login = find("half", &[("clouds.yaml", CLOUDS), ("secure.yaml", secure)]).ok().unwrap();
    let request = login.request().to_string();
    assert!(request.contains("hidden") && request.contains("p1"), "{request}");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    assert_eq!(
        told("nowhere", CLOUDS),
        "there is no cloud `nowhere` in ; it has half, lab, named-robot, odd, robot"
    );
    assert_eq!(told("half", CLOUDS), "cloud `half` of : `password` is missing");
    assert_eq!(
        told("odd", CLOUDS),
        "cloud `odd` of : Kiln cannot log in with auth_type `oidcpassword`; password, token and application \
         credentials work"
    );
    let broken = told("lab", "clouds:\n  lab:\n    auth: {password: s3cret\n  x: [");
    assert!(broken.contains("cannot be read: it is not YAML"), "{broken}");
    assert!(!broken.contains("s3cret"), "{broken}");
}

#[test]
fn the_variables_will_do_without_a_file() {
    let variables = BTreeMap::from([
        ("OS_AUTH_URL", "http://127.0.0.1:5000"),
        ("OS_USERNAME", "ada"),
        ("OS_PASSWORD", "pw"),
        ("OS_PROJECT_NAME", "hpc"),
        ("OS_INTERFACE", "publicURL"),
        ("OS_COMPUTE_ENDPOINT_OVERRIDE", "http://127.0.0.1:1/v2.1"),
    ]);
    let get = |name: &str| variables.get(name).map(ToString::to_string);
    let login = from_environment(&get).ok().unwrap();
    assert_eq!(login.interface, "public");
    assert_eq!(login.overrides["compute"], "http://127.0.0.1:1/v2.1");
    assert!(login.whose().starts_with("user ada, project hpc"));
    let none = from_environment(&|_| None).err().unwrap().to_string();
    assert!(none.starts_with("no OpenStack cloud is named"), "{none}");
}

#[test]
fn passwords_tokens_and_credentials_are_not_shown() {
    let mut by_token = Login::test("u");
    let scope = Scope { project: Named::Name("p".into()), domain: Named::Id("default".into()) };
    by_token.identity = Identity::Token { token: "s3cret".into(), scope };
    let written = ["lab", "robot"].map(|name| find(name, &[("clouds.yaml", CLOUDS)]).unwrap());
    for login in written.into_iter().chain([by_token]) {
        let shown = format!("{login:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("s3:cret"), "{shown}");
    }
}

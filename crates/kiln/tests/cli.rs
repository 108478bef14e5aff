//! What a user sees: the real binary, its output and its exit codes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory of its own for each test, which is also where the binary runs.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Desk {
        Desk(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("a writable directory");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect("a readable file")
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_kiln"))
            .args(args)
            .current_dir(self.path())
            .env_remove("KILN_FILE")
            .env_remove("KILN_LOG")
            .env_remove("COLUMNS")
            .output()
            .expect("the binary runs")
    }

    /// Everything a user sees of a run, in one text.
    fn see(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let code = output.status.code().map_or("a signal".to_owned(), |code| code.to_string());
        let mut text = format!("exit: {code}\n");
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                text = format!("{text}--- {name} ---\n{}", String::from_utf8_lossy(bytes));
            }
        }
        text
    }

    fn stdout(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

#[test]
fn help_of_a_verb() {
    insta::assert_snapshot!(Desk::new().see(&["init", "--help"]), @r"
    exit: 0
    --- stdout ---
    Write a cluster file to start from

    Usage: kiln init [OPTIONS]

    Options:
          --name <NAME>  Name of the cluster [default: demo]
          --force        Replace the file if it exists
      -h, --help         Print help

    Global options:
      -f, --file <PATH>   The cluster file [env: KILN_FILE=] [default: cluster.toml]
          --json          Print data and errors as JSON, and no messages
      -q, --quiet         Print no progress and no messages, only data, warnings and errors
      -v, --verbose...    Log to standard error what Kiln does; twice for what its libraries do
          --color <WHEN>  When to use colour; `auto` is on a terminal, unless `NO_COLOR` is set
                          [default: auto] [possible values: auto, always, never]
    ");
}

#[test]
fn without_a_verb_the_help_is_shown() {
    let output = Desk::new().run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: kiln"));
}

#[test]
fn unknown_verb() {
    insta::assert_snapshot!(Desk::new().see(&["vaildate"]), @r"
    exit: 2
    --- stderr ---
    error: unrecognized subcommand 'vaildate'

      tip: a similar subcommand exists: 'validate'

    Usage: kiln [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn wrong_usage_as_json() {
    insta::assert_snapshot!(Desk::new().see(&["--json", "validate", "--nope"]), @r#"
    exit: 2
    --- stderr ---
    {"error":"unexpected argument '--nope' found","causes":[],"hint":"run with --help to see the usage"}
    "#);
}

#[test]
fn missing_file() {
    insta::assert_snapshot!(Desk::new().see(&["validate"]), @r"
    exit: 2
    --- stderr ---
    error: cannot read cluster.toml
      caused by: No such file or directory (os error 2)
    hint: make one with `kiln init`, or name another with --file
    ");
}

#[test]
fn missing_file_as_json() {
    insta::assert_snapshot!(Desk::new().see(&["--json", "-f", "other.toml", "validate"]), @r#"
    exit: 2
    --- stderr ---
    {"error":"cannot read other.toml","causes":["No such file or directory (os error 2)"],"hint":"make one with `kiln init`, or name another with --file"}
    "#);
}

#[test]
fn init_makes_a_valid_file_once() {
    let desk = Desk::new();
    insta::assert_snapshot!(desk.see(&["init", "--name", "first"]), @r"
    exit: 0
    --- stderr ---
    wrote cluster.toml; look through it, then check it with `kiln validate`
    ");
    let written = desk.read("cluster.toml");
    insta::assert_snapshot!(desk.see(&["validate"]), @r"
    exit: 0
    --- stderr ---
    cluster.toml is valid: 1 control, 1 login, 4 compute nodes in 2 groups, 2 partitions
    ");
    insta::assert_snapshot!(desk.see(&["init", "--name", "second"]), @r"
    exit: 2
    --- stderr ---
    error: cluster.toml exists already
    hint: --force replaces it
    ");
    assert_eq!(desk.read("cluster.toml"), written);
    assert!(desk.run(&["--quiet", "init", "--name", "second", "--force"]).stderr.is_empty());
    assert!(desk.read("cluster.toml").contains("second"));
}

#[test]
fn init_refuses_a_name_that_is_none() {
    let desk = Desk::new();
    insta::assert_snapshot!(desk.see(&["init", "--name", "not a name"]), @r"
    exit: 2
    --- stderr ---
    error: `not a name` cannot be the name of a cluster
    hint: a name is a lower-case letter, then lower-case letters, digits or `-`, no `-` at the end, at most 31
    ");
    assert!(!desk.path().join("cluster.toml").exists());
}

#[test]
fn validate_points_into_a_bad_file() {
    let desk = Desk::new();
    desk.write("cluster.toml", "[cluster]\nname = 7\n");
    insta::assert_snapshot!(desk.see(&["validate"]), @r#"
    exit: 2
    --- stderr ---
    error[missing-key]: the file has no [cloud] table
     --> cluster.toml:1:1
      |
    1 | [cluster]
      | ^ expected [cloud]

    error[missing-key]: the file has no [compute.NAME] table
     --> cluster.toml:1:1
      |
    1 | [cluster]
      | ^ expected [compute.NAME]

    error[wrong-type]: `name` in [cluster] is an integer
     --> cluster.toml:2:8
      |
    2 | name = 7
      |        ^ expected a string
      |
      = help: write it in quotes: "7"

    error: cluster.toml: 3 errors
    "#);
    insta::assert_snapshot!(desk.see(&["--json", "validate"]), @r#"
    exit: 2
    --- stdout ---
    [
      {
        "severity": "error",
        "code": "missing-key",
        "file": "cluster.toml",
        "line": 1,
        "column": 1,
        "message": "the file has no [cloud] table",
        "expected": "[cloud]",
        "hint": null
      },
      {
        "severity": "error",
        "code": "missing-key",
        "file": "cluster.toml",
        "line": 1,
        "column": 1,
        "message": "the file has no [compute.NAME] table",
        "expected": "[compute.NAME]",
        "hint": null
      },
      {
        "severity": "error",
        "code": "wrong-type",
        "file": "cluster.toml",
        "line": 2,
        "column": 8,
        "message": "`name` in [cluster] is an integer",
        "expected": "a string",
        "hint": "write it in quotes: \"7\""
      }
    ]
    "#);
}

#[test]
fn validate_shows_the_whole_specification() {
    let desk = Desk::new();
    desk.stdout(&["init", "--name", "shown"]);
    let spec: serde_json::Value = serde_json::from_str(&desk.stdout(&["validate", "--show"])).expect("JSON");
    assert_eq!(spec["name"], "shown");
    assert!(spec["concurrency"].is_u64(), "defaults are filled in");
}

#[test]
fn schema_is_json() {
    let schema: serde_json::Value = serde_json::from_str(&Desk::new().stdout(&["schema"])).expect("JSON");
    assert!(schema["properties"].is_object());
}

#[test]
fn completions_know_the_verbs() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Desk::new().stdout(&["completions", shell]);
        assert!(script.contains("validate"), "{shell}");
    }
}

#[test]
fn man_pages_are_made() {
    let desk = Desk::new();
    desk.stdout(&["man", "--dir", "pages"]);
    for page in ["kiln.1", "kiln-init.1", "kiln-validate.1", "kiln-node-apply.1"] {
        assert!(desk.read(&format!("pages/{page}")).contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(!desk.path().join("pages/kiln-local.1").exists(), "hidden verbs have no page");
    assert!(desk.stdout(&["man"]).contains(".TH kiln 1"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let desk = Desk::new();
    let kiln = env!("CARGO_BIN_EXE_kiln");
    let script = format!("set -o pipefail; '{kiln}' completions bash | head -c 1 >/dev/null");
    let status = Command::new("bash").args(["-c", &script]).current_dir(desk.path()).status();
    assert!(status.expect("bash runs").success());
}

#[test]
fn node_apply_wants_a_bundle() {
    let desk = Desk::new();
    desk.write("bundle.json", "{}");
    insta::assert_snapshot!(desk.see(&["node", "apply", "--dry-run", "--bundle", "bundle.json"]), @r"
    exit: 2
    --- stderr ---
    error: this is not a bundle: line 1, column 2: a value is missing or of the wrong kind
    ");
}

#[test]
fn node_apply_shows_what_would_change() {
    let desk = Desk::new();
    let bundle = r#"{"cluster": "c", "node": "compute-1", "role": "compute", "resources": [
        {"kind": "directory", "path": "/etc", "mode": 493, "owner": "root", "group": "root"},
        {"kind": "file", "path": "/etc/of-kilns-tests", "content": "a line\n", "mode": 420,
         "owner": "root", "group": "root", "secret": false, "base64": false}]}"#;
    desk.write("bundle.json", bundle);
    let args = ["node", "apply", "--dry-run", "--bundle", "bundle.json"];
    insta::assert_snapshot!(desk.see(&args), @r"
    exit: 0
    --- stdout ---
    would change file:/etc/of-kilns-tests  (created)
        --- /dev/null
        +++ /etc/of-kilns-tests
        @@ -0,0 +1 @@
        +a line
    compute-1: 1 changed, 1 unchanged (dry run: nothing was touched)
    ");
    let report = desk.stdout(&["--json", "node", "apply", "--dry-run", "--bundle", "bundle.json"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["resources"][1]["outcome"], "changed");
}

/// What only some clouds have is no failure elsewhere, and asks nobody.
#[test]
fn a_cloud_without_limits_and_policies() {
    let desk = Desk::new();
    desk.stdout(&["init"]);
    insta::assert_snapshot!(desk.see(&["limits"]), @r"
    exit: 0
    --- stderr ---
    this cloud sets no limits that Kiln could show
    ");
    assert_eq!(desk.stdout(&["--json", "limits"]), "[]\n");
    insta::assert_snapshot!(desk.see(&["policy"]), @r"
    exit: 0
    --- stderr ---
    nothing: on this cloud Kiln gives the control node its rights itself
    ");
    let before = desk.read("cluster.toml");
    insta::assert_snapshot!(desk.see(&["limits", "--write"]), @r"
    exit: 2
    --- stderr ---
    error: cluster.toml has no [limits]
    hint: name the flavors: kiln limits FLAVOR... --write
    ");
    insta::assert_snapshot!(desk.see(&["limits", "medium", "--write"]), @r"
    exit: 1
    --- stderr ---
    error: the cloud tells no limits of medium by availability zone
    hint: write the numbers into [limits] yourself, or a group in place of them
    ");
    assert_eq!(desk.read("cluster.toml"), before);
}

/// What cannot be right, or is not there, is said without asking any node.
#[test]
fn quotas_that_cannot_be() {
    let desk = Desk::new();
    desk.stdout(&["init"]);
    insta::assert_snapshot!(desk.see(&["quota", "set", "ada", "--hard", "50"]), @r"
    exit: 2
    --- stderr ---
    error: invalid value '50' for '--hard <SIZE>': expected a number and MiB, GiB or TiB, such as 8 GiB

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(desk.see(&["quota", "set", "ada", "--soft", "2 GiB", "--hard", "1 GiB"]), @r"
    exit: 2
    --- stderr ---
    error: the soft limit is above the hard one
    ");
    insta::assert_snapshot!(desk.see(&["quota", "show", "Ada Lovelace"]), @r"
    exit: 2
    --- stderr ---
    error: a user cannot be named Ada Lovelace
    hint: a name is a lower-case letter, then lower-case letters, digits, `_` or `-`, at most 31
    ");
    insta::assert_snapshot!(desk.see(&["quota", "list"]), @r"
    exit: 1
    --- stderr ---
    error: the file asks for no quotas
    hint: write home = { quota = true } into [volumes], then `kiln up`
    ");
    let own = "home = { mode = \"manage\", size = \"10 GiB\" }";
    let file = desk.read("cluster.toml");
    assert!(file.contains(own), "{file}");
    desk.write("cluster.toml", &file.replace(own, "home = { quota = true }"));
    let seen = desk.see(&["quota", "list"]);
    assert!(seen.contains("warning[no-quota]"), "{seen}");
    assert!(seen.ends_with(
        "error: there are no quotas on a cloud of the kind `local`\nhint: its volumes are directories of the host\n"
    ), "{seen}");
    assert!(!desk.run(&["quota", "set", "ada"]).status.success(), "nothing is asked for");
}

/// `KILN_UPDATE=1` writes the page instead.
#[test]
fn reference_is_current() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let page = Desk::new().stdout(&["reference"]);
    if std::env::var_os("KILN_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a writable tree");
        std::fs::write(&path, &page).expect("a writable tree");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/reference/cli.md is not current: run `KILN_UPDATE=1 cargo test -p kiln --test cli`"
    );
}

/// Output that a page shows is compared with what is printed, by the suite `readme` of the end-to-end tests.
#[test]
fn sessions_are_only_on_pages_that_are_run() {
    const RUN: [&str; 3] = ["README.md", "docs/operations.md", "docs/rebuild.md"];
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).expect("a directory").flatten();
    let docs = docs.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "md"));
    for path in docs.chain([root.join("README.md"), root.join("ARCHITECTURE.md")]) {
        let text = std::fs::read_to_string(&path).expect("a page");
        let is_run = RUN.iter().any(|page| path.ends_with(page));
        let mut session = false;
        for (at, line) in text.lines().enumerate() {
            if let Some(kind) = line.strip_prefix("```") {
                session = kind == "console";
            }
            let shows = line.starts_with("$ ") || line.starts_with("    $ ") || line == "```console";
            let place = format!("{}:{}", path.display(), at + 1);
            assert!(!shows || (session && is_run), "{place}: this session is not run");
        }
    }
}

/// Messages, pages and comments are for readers whose first language may be another one.
#[test]
fn old_words_do_not_come_back() {
    const OLD: [&str; 6] = ["is no name", "anew", "in vain", "makes no sense", "stumbled", "not to be had"];
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pending: Vec<PathBuf> =
        vec![root.join("docs"), root.join("README.md"), root.join("ARCHITECTURE.md")];
    for package in std::fs::read_dir(root.join("crates")).expect("a directory").flatten() {
        pending.push(package.path().join("src"));
    }
    let (mut looked_at, mut found) = (0, Vec::new());
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending
                .extend(std::fs::read_dir(&path).expect("a directory").flatten().map(|entry| entry.path()));
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        looked_at += 1;
        // As it is read: lines that are broken, and names in code, do not hide a word or make one.
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let words: Vec<&str> = text.split(|c| !is_part(c)).filter(|word| !word.is_empty()).collect();
        let text = format!(" {} ", words.join(" ").to_lowercase()).replace(" there is no name ", " ");
        let hits = OLD.into_iter().filter(|old| text.contains(&format!(" {old} ")));
        found.extend(hits.map(|old| format!("{}: {old}", path.display())));
    }
    assert!(looked_at > 300, "{looked_at} files");
    assert!(found.is_empty(), "{found:#?}");
}

//! The dashboard, in a real browser, over the way that `kiln dashboard` opens.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::behind::{cloud, only};
use crate::browser::Browser;
use crate::lab::{Lab, wait};
use crate::rollout::COMPUTE;
use crate::tmux::Tmux;

/// What rebuild jobs do here: the rollout is to last as long as somebody looks at it.
const UNTIL_LET: &str = "until test -e /run/may-pass; do sleep 0.2; done";

/// Logs in, sees the nodes, reads why a job waits, pauses and resumes a rollout, which leaves events, and finds a node that is
/// killed meanwhile. Others may do less.
pub fn in_a_browser(lab: &mut Lab) {
    let job = lab.submit("--begin=now+1hour --output=/dev/null --job-name=patient", "true");
    let busy = lab.submit(
        "--partition=extra --time=10 --mem=200 --output=/dev/null --job-name=busy",
        "timeout 8 sh -c \"while :; do :; done\"; true",
    );
    let holds = lab.submit(
        "--partition=extra --nodelist=extra-1 --mem=300 --output=/dev/null --job-name=holds",
        "sleep 600",
    );
    lab.wait_job(&holds, "RUNNING");
    let (mut kiln, address) = open(lab, &["--as", "olga"]);
    let mut browser = Browser::start();
    browser.size(1400, 1000);
    browser.go(&address);
    browser.wait_text("Why jobs wait");
    browser.wait("all compute nodes", "document.querySelectorAll('.grid a').length === 4");
    keep(&mut browser, "overview");
    about_jobs(lab, &mut browser, &busy, &holds);

    let rebuild =
        ["rebuild", "--detach", "--no-reboot", "--force", "--max-unavailable", "1", "--command", UNTIL_LET];
    lab.kiln(&rebuild);
    let id = lab.json(&["rebuild", "status"])["id"].clone();
    turn(&mut browser, "#/jobs?state=PENDING&text=patient");
    browser.wait_text(&job);
    browser.wait_text("It was submitted to start at a later time.");

    turn(&mut browser, &format!("#/rollouts/{id}"));
    for (order, state) in [("pause", "paused"), ("resume", "running")] {
        browser.click(&format!("#order-{order}"));
        browser.click("#confirm-yes");
        browser.wait(state, &format!("document.querySelector('.tag')?.textContent === '{state}'"));
        assert_eq!(lab.json(&["rebuild", "status"])["state"], state);
    }
    keep(&mut browser, "rollout");
    turn(&mut browser, "#/events");
    browser.wait_text("asked by olga");
    let events = lab.json(&["events", "--since", "5m"]);
    for outcome in ["paused", "resumed"] {
        let told = |event: &&Value| event["why"] == "asked by olga" && event["outcome"] == outcome;
        assert!(events.as_array().expect("events").iter().any(|e| told(&e)), "{outcome}: {events}");
    }
    in_a_terminal(lab);
    for node in COMPUTE {
        lab.on(node, &["touch", "/run/may-pass"]);
    }
    let killed = node_killed(lab, &mut browser, &id);
    turn(&mut browser, "#/images");
    let runs =
        "[...document.querySelectorAll('tbody tr')].some((row) => Number(row.cells[2].textContent) > 0)";
    browser.wait("an image that nodes run", runs);
    service_stopped(lab, &mut browser);
    others(lab, &mut browser, &id);
    // Answers that refuse something are told by the browser itself.
    let own = |complaint: &&String| !complaint.contains(r#""source":"network""#);
    assert_eq!(browser.complaints.iter().filter(own).count(), 0, "{:?}", browser.complaints);

    // A login is good for one session.
    let mut second = Browser::start();
    second.go(&address);
    second.wait_text("was used already");

    kill_process(Pid::from_child(&kiln), Signal::INT).expect("Ctrl-C");
    assert_eq!(kiln.wait().expect("it ends").code(), Some(0));
    let port = address.split(['/', ':']).nth(4).expect("a port").to_string();
    assert!(std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err(), "the way is still open");
    assert_eq!(lab.watch()["failed"], 0);
    lab.on("control", &["scancel", &job]);
    lab.kiln(&["up", "--yes"]);
    wait("the node that was killed is back", || {
        // A line for each of its partitions.
        let states = lab.on("control", &["sinfo", "-hN", "-n", &killed, "-o", "%T"]);
        states.lines().all(|state| state == "idle")
    });
}

/// One that the rollout is through with: the others still get their turn. It is found on the first page, which leads to its own.
fn node_killed(lab: &mut Lab, browser: &mut Browser, rollout: &Value) -> String {
    let mut through = None;
    wait("the rollout is through with a node", || {
        let nodes = lab.json(&["rebuild", "status"])["nodes"].clone();
        let done = nodes.as_array().expect("nodes").iter().find(|node| node["step"] == "done").cloned();
        through = done.and_then(|node| node["node"].as_str().map(String::from));
        through.is_some()
    });
    let node = through.expect("a node");
    turn(browser, "#/");
    browser.wait_text("Why jobs wait");
    let link = format!(".findings a[href=\"#/nodes/{node}\"]");
    let found = format!("document.querySelector('{link}') !== null");
    assert_eq!(browser.ask(&found), false, "nothing was wrong with {node}");
    let id = only(&node).id;
    cloud(async |cloud| cloud.delete(&id).await);
    browser.wait("the finding", &found);
    keep(browser, "killed");
    browser.click(&link);
    browser.wait_text("its instance is gone");
    // Nobody has stopped the rollout for it.
    turn(browser, &format!("#/rollouts/{rollout}"));
    browser.wait_text(&node);
    assert_ne!(lab.json(&["rebuild", "status"])["state"], "halted");
    node
}

/// What a job that ran has used, whose the cores of a node are, and what Slurm allows and counts.
fn about_jobs(lab: &mut Lab, browser: &mut Browser, busy: &str, holds: &str) {
    turn(browser, "#/nodes/extra-1");
    browser.wait_text("1 job with 1 of");
    let lettered =
        "[...document.querySelectorAll('.cores .core')].filter((core) => core.textContent === 'A').length";
    assert_eq!(browser.ask(lettered), 1);
    browser.wait_text(holds);
    keep(browser, "shares");
    lab.on("control", &["scancel", holds]);

    let recorded = || {
        let state = lab.on("control", &["sacct", "-nXP", "-j", busy, "-o", "state"]);
        state == "COMPLETED"
    };
    wait("the accounting has the job", recorded);
    turn(browser, "#/jobs/history?state=COMPLETED&user=demo");
    let linked = format!("document.querySelector('tbody a[href=\"#/jobs/{busy}\"]') !== null");
    browser.wait("the job in the history", &linked);
    turn(browser, &format!("#/jobs/{busy}"));
    browser.wait_text("It ended by itself and reported success.");
    browser.wait_text("on cores, of");
    let used = "Number(/Cores (\\d+) %/.exec(document.querySelector('.efficiency').textContent)?.[1] ?? 0)";
    let used = browser.ask(used).as_f64().expect("a number");
    assert!((1.0..=110.0).contains(&used), "{used} % of its core");
    keep(browser, "job");

    turn(browser, "#/jobs/limits");
    browser.wait_text("normal");
    turn(browser, "#/jobs/scheduler");
    browser.wait_text("Backfill scheduler");
}

/// Control and login node report on themselves; what is stopped is seen, and no longer when it runs again.
fn service_stopped(lab: &mut Lab, browser: &mut Browser) {
    turn(browser, "#/health");
    browser.wait_text("slurmdbd.service: active (running) since");
    // What the login node hands out has come through.
    browser.wait_text("login-0 login");
    browser.wait_text("as on control");
    let look_again = |lab: &Lab| lab.on("control", &["systemctl", "start", "kiln-checkup.service"]);
    lab.on("control", &["systemctl", "stop", "slurmdbd.service"]);
    look_again(lab);
    browser.wait_text("slurmdbd.service is inactive");
    keep(browser, "health");
    lab.on("control", &["systemctl", "start", "slurmdbd.service"]);
    look_again(lab);
    browser.wait("it works again", "!document.body.innerText.includes('slurmdbd.service is inactive')");
    // Nobody else can read what is handed out there.
    let handed_out = lab.on("control", &["timeout 60 bash -c 'exec 3<>/dev/tcp/login-0/6832; cat <&3'"]);
    assert!(handed_out.contains("MUNGE:") && !handed_out.contains("sshd"), "{handed_out}");
    let opened = lab.try_on("login-0", &["unmunge < /run/kiln-report/report"]);
    assert!(!opened.status.success(), "root of a login node is not kilnd");
}

/// `kiln top` shows the same over the same way, and obeys.
fn in_a_terminal(lab: &mut Lab) {
    let kiln = lab.kiln_command(&["top", "--as", "tina"]);
    let shown = |word: &std::ffi::OsStr| kiln_ssh::quote(&word.to_string_lossy());
    let words = std::iter::once(kiln.get_program()).chain(kiln.get_args()).map(shown);
    let set =
        kiln.get_envs().filter_map(|(name, value)| Some(format!("{}={}", name.display(), shown(value?))));
    let folder = kiln.get_current_dir().map(|dir| format!("cd {} && ", shown(dir.as_os_str())));
    let line: Vec<String> = std::iter::once("env".to_string()).chain(set).chain(words).collect();
    let line = format!("{}{}; echo \"ended: $?\"; cat", folder.unwrap_or_default(), line.join(" "));
    let tmux = Tmux::start(&line, (120, 30));
    tmux.wait("4 nodes");
    tmux.press(&["4"]);
    tmux.wait("to come");
    for (key, state) in [("p", "paused"), ("r", "running")] {
        tmux.press(&[key]);
        tmux.wait("Are you sure?");
        tmux.press(&["y"]);
        wait(state, || lab.json(&["rebuild", "status"])["state"] == state);
    }
    tmux.press(&["5"]);
    tmux.wait("asked by tina");
    tmux.press(&["q"]);
    tmux.wait("ended: 0");
}

/// Without a login nothing answers; a viewer's token shows figures and changes nothing.
fn others(lab: &mut Lab, browser: &mut Browser, rollout: &Value) {
    let status = |browser: &mut Browser, path: &str, options: Value| {
        let mut options = options;
        options["credentials"] = json!("omit");
        browser.ask(&format!("fetch({}, {options}).then((answer) => answer.status)", json!(path)))
    };
    assert_eq!(status(browser, "/api/v1/overview", json!({})), 401);
    let token = lab.kiln(&["dashboard", "token", "add", "scraper", "--for", "1h"]);
    let header = json!({ "Authorization": format!("Bearer {}", token.trim()) });
    let with = |method: &str| json!({ "method": method, "headers": header });
    assert_eq!(status(browser, &format!("/api/v1/rollouts/{rollout}/abort"), with("POST")), 403);
    let figures = browser.ask(&format!(
        "fetch('/metrics', {{ credentials: 'omit', headers: {header} }}).then((answer) => answer.text())"
    ));
    let figures = figures.as_str().expect("text");
    assert!(
        figures.contains("kiln_nodes{group=\"extra\",state=") && figures.contains("kiln_jobs{"),
        "{figures}"
    );
    assert_eq!(lab.json(&["dashboard", "token", "list"])[0]["name"], "scraper");
    lab.kiln(&["dashboard", "token", "remove", "scraper"]);
    assert_eq!(status(browser, "/metrics", with("GET")), 401);
}

/// With the cluster's own certificate, from where the file says and nowhere else, and no longer when the file says so no more.
pub fn over_the_network(lab: &mut Lab) {
    let before = lab.read_file();
    let control = lab.host("control")["address"].as_str().expect("an address").to_string();
    let address: SocketAddr = format!("{control}:6831").parse().expect("an address");
    assert!(TcpStream::connect(address).is_err(), "nobody has asked for it");
    // How this host is seen from there.
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect(address).expect("a way");
    let own = socket.local_addr().expect("an address").ip();
    lab.write_file(&format!("{before}\n[dashboard]\nfrom = [\"{own}/32\"]\n"));
    lab.kiln(&["configure"]);
    wait("kilnd listens", || TcpStream::connect(address).is_ok());
    let certificate = lab.path("dashboard.crt");
    std::fs::write(&certificate, lab.on("control", &["cat", "/etc/kiln/dashboard.crt"])).expect("a file");

    let trusted = ["--cacert", certificate.to_str().expect("a path")];
    let page = curl(&control, &trusted, "https://control:6831/login").expect("an answer");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("Log in"), "{page}");
    assert!(page.to_lowercase().contains("strict-transport-security: max-age="), "{page}");
    for (path, status) in
        [("/", "303"), ("/api/v1/overview", "401"), ("/assets/app.js", "401"), ("/metrics", "401")]
    {
        let answer = curl(&control, &trusted, &format!("https://control:6831{path}")).expect("an answer");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    let token = lab.kiln(&["dashboard", "token", "add", "scraper", "--for", "1h"]);
    let header = format!("Authorization: Bearer {}", token.trim());
    let with_token = [&trusted[..], &["--header", &header]].concat();
    let session = curl(&control, &with_token, "https://control:6831/api/v1/session").expect("an answer");
    assert!(session.contains("\"scraper\""), "{session}");
    lab.kiln(&["dashboard", "token", "remove", "scraper"]);

    let refused = curl(&control, &[], "https://control:6831/login").expect_err("another's certificate");
    assert!(refused.contains("certificate"), "{refused}");
    curl(&control, &[], "http://control:6831/login").expect_err("without TLS");
    // Nodes of the cluster are not among those who may.
    let other = lab.try_on("login-0", &["timeout 60 openssl s_client -connect control:6831 </dev/null"]);
    assert!(!other.status.success(), "{}", String::from_utf8_lossy(&other.stdout));
    // `status` asks over TLS, too.
    let status = lab.json(&["status"]);
    let control = status["nodes"].as_array().expect("nodes").iter().find(|node| node["node"] == "control");
    assert_eq!(control.expect("control")["verdict"], "ok", "{status}");

    lab.write_file(&before);
    lab.kiln(&["configure"]);
    wait("kilnd listens no longer", || TcpStream::connect(address).is_err());
    assert!(!lab.try_on("control", &["test -e /etc/kiln/dashboard.crt"]).status.success());
}

/// The answer with its head, or what curl says.
fn curl(control: &str, options: &[&str], address: &str) -> Result<String, String> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--max-time", "120"])
        .args(["--resolve", &format!("control:6831:{control}")])
        .args(options)
        .arg(address)
        .output()
        .expect("curl runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// `kiln dashboard`, and the address that it printed.
fn open(lab: &Lab, more: &[&str]) -> (Child, String) {
    let arguments: Vec<&str> = ["--json", "dashboard", "--no-open"].iter().chain(more).copied().collect();
    let mut kiln = lab.kiln_command(&arguments).stdout(Stdio::piped()).spawn().expect("kiln runs");
    let mut line = String::new();
    BufReader::new(kiln.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let report: Value =
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("kiln dashboard printed {line:?}"));
    wait("it goes on", || kiln.try_wait().expect("a process").is_none());
    (kiln, report["address"].as_str().expect("an address").to_string())
}

fn turn(browser: &mut Browser, page: &str) {
    browser.ask(&format!("location.hash = {}", json!(page)));
}

/// `KILN_PICTURES=DIR` keeps what it looks like.
fn keep(browser: &mut Browser, name: &str) {
    if let Some(directory) = std::env::var_os("KILN_PICTURES") {
        std::fs::create_dir_all(&directory).expect("a directory");
        browser.picture(&PathBuf::from(directory).join(format!("cluster-{name}.png")));
    }
}

//! Prometheus and its alerts.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::behind::{cloud, only};
use crate::cluster_dir::printed;
use crate::lab::{Lab, wait};

/// A program of the site that alerts are posted to.
struct Receiver {
    port: u16,
    messages: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    /// It ends with the test.
    fn start() -> Receiver {
        let listener = TcpListener::bind(("0.0.0.0", 0)).expect("a port of the host");
        let port = listener.local_addr().expect("its address").port();
        let messages: Arc<Mutex<Vec<Value>>> = Arc::default();
        let heard = Arc::clone(&messages);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                let mut reader = BufReader::new(&stream);
                let (mut length, mut line) = (0, String::new());
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    let header = line.to_ascii_lowercase();
                    length = header
                        .strip_prefix("content-length:")
                        .map_or(length, |n| n.trim().parse().unwrap_or(0));
                    line.clear();
                }
                let mut body = vec![0; length];
                if reader.read_exact(&mut body).is_ok()
                    && let Ok(message) = serde_json::from_slice(&body)
                {
                    heard.lock().expect("the messages").push(message);
                }
                let _ =
                    (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        Receiver { port, messages }
    }

    /// Whether kilnd has told of something.
    fn was_told(&self, title: &str) -> bool {
        let messages = self.messages.lock().expect("the messages");
        messages.iter().any(|message| message["cluster"].is_string() && message["title"] == title)
    }

    /// Whether an alert of this name has come about a node.
    fn has(&self, alert: &str, node: &str, status: &str) -> bool {
        let messages = self.messages.lock().expect("the messages");
        let alerts = messages.iter().flat_map(|message| message["alerts"].as_array().into_iter().flatten());
        let mut of_node =
            alerts.filter(|a| a["labels"]["alertname"] == alert && a["labels"]["instance"] == node);
        of_node.any(|alert| alert["status"] == status)
    }
}

/// Until a test has started a syslog server.
pub const NO_LOG_SERVER: &str = "syslog = \"127.0.0.1:1\"";

/// A syslog server of the site, over TCP.
struct LogServer {
    port: u16,
    lines: Arc<Mutex<Vec<String>>>,
}

impl LogServer {
    /// It ends with the test.
    fn start() -> LogServer {
        let listener = TcpListener::bind(("0.0.0.0", 0)).expect("a port of the host");
        let port = listener.local_addr().expect("its address").port();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&lines);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = Arc::clone(&heard);
                std::thread::spawn(move || {
                    for line in BufReader::new(stream).lines().map_while(Result::ok) {
                        heard.lock().expect("the lines").push(line);
                    }
                });
            }
        });
        LogServer { port, lines }
    }

    fn has(&self, words: &str) -> bool {
        self.lines.lock().expect("the lines").iter().any(|line| line.contains(words))
    }
}

/// What Prometheus answers, a line for each series.
pub fn query(lab: &Lab, expression: &str) -> String {
    lab.on("control", &promtool(expression))
}

fn promtool(expression: &str) -> [&str; 5] {
    ["promtool", "query", "instant", "http://127.0.0.1:9090", expression]
}

pub fn value(lab: &Lab, expression: &str) -> Option<f64> {
    // It may have been started just now.
    let asked = lab.try_on("control", &promtool(expression));
    let line = String::from_utf8_lossy(&asked.stdout).into_owned();
    line.split(" => ").nth(1)?.split(' ').next()?.parse().ok()
}

pub fn answers(lab: &Lab, node: &str) -> bool {
    value(lab, &format!("up{{job=\"node\",instance=\"{node}\"}}")) == Some(1.0)
}

pub const ADDRESS_FILE: &str = "webhook-address";

/// Of a cluster whose figures are read every two seconds.
pub fn figures(lab: &mut Lab) {
    for node in ["control", "login-0", "standard-0"] {
        wait(&format!("Prometheus has figures of {node}"), || answers(lab, node));
    }
    wait("Prometheus has kilnd's figures", || {
        value(lab, "sum(kiln_nodes{group=\"standard\",state=\"idle\"})") == Some(1.0)
    });
    assert_eq!(value(lab, "kiln_slurmdbd_up"), Some(1.0));
    assert_eq!(value(lab, "kiln_blind"), Some(0.0));
    assert_eq!(
        value(lab, "count(kiln_schedule_cycle_seconds) + count(kiln_cloud_calls_total) > bool 1"),
        Some(1.0)
    );
    wait("the only instance costs one an hour and second", || {
        value(lab, "rate(kiln_instance_cost_total{group=\"standard\"}[10s]) > 0.5").is_some()
    });
    assert_eq!(
        query(lab, "node_systemd_unit_state{state=\"active\"} == 0"),
        "",
        "all services of control run"
    );
    lab.on("control", &["promtool check config /etc/prometheus/prometheus.yml"]);
    for node in lab.json(&["status"])["nodes"].as_array().expect("nodes") {
        assert_eq!(node["verdict"], "ok", "{node}");
    }
    only_control_may_ask(lab);
}

fn only_control_may_ask(lab: &Lab) {
    let connects = |node: &str, limit: u32| {
        let connect = format!("timeout {limit} bash -c 'exec 3<>/dev/tcp/standard-0/9100'");
        lab.try_on(node, &[&connect]).status.success()
    };
    assert!(connects("control", 60), "control asks the exporter");
    for node in ["login-0", "standard-0"] {
        assert!(!connects(node, 2), "{node} asks the exporter");
    }
    let token = lab.on("control", &["stat", "-c", "%U %a", "/etc/prometheus/kiln-token"]);
    assert_eq!(token, "prometheus 400");
}

/// A node that comes for a job is asked for its figures, and no longer when it has gone; that is not an alert.
pub fn elastic_nodes(lab: &mut Lab) {
    lab.as_user("login-0", "rm -f may-go");
    let until_told = "until test -e may-go; do sleep 0.2; done";
    let id = lab.submit("--partition=burst --nodes=1 --output=/dev/null", until_told);
    // One of them may still be on its way down.
    let mut node = String::new();
    wait("Slurm has a node for the job", || {
        node = lab.job(&id, "NodeList");
        node.starts_with("burst-")
    });
    wait(&format!("Prometheus has figures of {node}"), || answers(lab, &node));
    lab.as_user("login-0", "touch may-go");
    lab.wait_job(&id, "COMPLETED");
    let series = format!("up{{job=\"node\",instance=\"{node}\"}}");
    wait(&format!("Prometheus has given up {node}"), || query(lab, &series).is_empty());
    let alerts = format!("ALERTS{{instance=\"{node}\"}}");
    wait("that is not worth an alert", || query(lab, &alerts).is_empty());
}

/// An alert that somebody hears of, and its end.
pub fn node_killed(lab: &mut Lab) {
    let receiver = Receiver::start();
    let gateway = lab.on("control", &["ip -4 route show default | cut -d' ' -f3"]);
    std::fs::write(lab.path(ADDRESS_FILE), format!("http://{gateway}:{}/\n", receiver.port)).expect("a file");
    let syslog = LogServer::start();
    lab.edit(NO_LOG_SERVER, &format!("syslog = \"{gateway}:{}\"", syslog.port));
    lab.kiln(&["configure"]);
    for node in ["control", "login-0", "standard-0"] {
        lab.on(node, &["systemd-cat", "--identifier=e2e-mark", "echo", "from", node]);
        wait(&format!("the site's server has the log of {node}"), || {
            syslog.has(&format!(" {node} e2e-mark")) && syslog.has(&format!("from {node}"))
        });
    }
    let address = format!("{gateway}:{}", receiver.port);
    lab.on("control", &[&format!("grep -q {address} /etc/prometheus/alertmanager.yml")]);
    assert!(!lab.kiln(&["configure", "--dry-run"]).contains(&address), "the address is a secret");
    // kilnd tells people there, too.
    lab.kiln(&["notify", "test"]);
    assert!(receiver.was_told("a test"));
    lab.kiln(&["rebuild", "--no-reboot", "--force", "--command", "true", "--nodes", "standard-0"]);
    let rollout = lab.json(&["rebuild", "status"])["id"].to_string();
    wait("the webhook hears of the rollout", || receiver.was_told(&format!("rollout {rollout} is done")));
    let id = only("standard-0").id;
    cloud(async |cloud| cloud.stop(&id, true).await);
    wait("the webhook hears of the node", || receiver.has("NodeLost", "standard-0", "firing"));
    // kilnd starts it again.
    wait("the node answers again", || answers(lab, "standard-0"));
    wait("the webhook hears that it is over", || receiver.has("NodeLost", "standard-0", "resolved"));
}

/// Services that do not work are seen; those that the file no longer asks for are stopped.
pub fn no_longer_asked_for(lab: &mut Lab) {
    lab.on("control", &["systemctl", "stop", "slurmrestd", "prometheus-alertmanager"]);
    let said = printed(&lab.try_kiln(&["doctor"]));
    for words in ["slurmrestd.service is inactive", "prometheus-alertmanager.service is inactive"] {
        assert!(said.contains(words), "{said}");
    }
    let file = lab.read_file();
    let (before, rest) = file.split_once("\n[monitoring]\n").expect("the table");
    let (_, after) = rest.split_once("[reconcile]").expect("the next table");
    lab.write_file(&format!("{}\n[reconcile]{after}", before.replace("rest = true", "rest = false")));
    lab.kiln(&["configure"]);
    let units = "prometheus prometheus-alertmanager prometheus-node-exporter slurmrestd kiln-rest";
    for node in ["control", "login-0", "standard-0"] {
        let states =
            lab.try_on(node, &[&format!("systemctl is-active {units}; systemctl is-enabled {units}")]);
        let states = String::from_utf8_lossy(&states.stdout).into_owned();
        assert!(!states.lines().any(|state| state == "active" || state == "enabled"), "{node}: {states}");
    }
    assert!(!lab.on("control", &["scontrol", "show", "config"]).contains("auth/jwt"));
}

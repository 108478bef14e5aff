//! The dashboard in a real browser, with a cluster of 1,000 nodes that is not there. `KILN_PICTURES=DIR` keeps what it looks like.

#![allow(clippy::unwrap_used)]

#[path = "../lab/browser.rs"]
mod browser;
mod elsewhere;
#[path = "../lab/fake.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod fake;
#[path = "../lab/outside.rs"]
mod outside;
#[path = "../lab/port.rs"]
mod port;
#[path = "../lab/provider.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod provider;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use browser::Browser;
use fake::Fake;
use kiln_web::auth::KeyKind;
use kiln_wire::dashboard::Role;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// The dashboard of a cluster, and a browser that is logged in.
struct Lab {
    browser: Browser,
    fake: Arc<Fake>,
    address: String,
    stop: CancellationToken,
    _runtime: Runtime,
    _alone: MutexGuard<'static, ()>,
}

/// Several browsers at once would make each other slow.
static ONE: Mutex<()> = Mutex::new(());

impl Lab {
    fn new(nodes: usize, role: Role) -> Lab {
        Lab::of(Fake::lively(nodes), nodes, role)
    }

    fn of(fake: Fake, nodes: usize, role: Role) -> Lab {
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (fake, stop) = (Arc::new(fake), CancellationToken::new());
        let runtime = Runtime::new().unwrap();
        let port = port::free();
        runtime.spawn(kiln_web::serve(fake.clone(), port, stop.clone()));
        port::wait(port);
        let mut browser = Browser::start();
        let word = fake.admit(KeyKind::Login, "olga", role, Duration::from_secs(600));
        browser.size(1400, 1000);
        let address = format!("http://127.0.0.1:{port}");
        browser.go(&format!("{address}/login#{word}"));
        browser.wait_text("Why jobs wait");
        browser.wait("nodes", &format!("document.querySelectorAll('.grid a').length === {nodes}"));
        Lab { browser, fake, address, stop, _runtime: runtime, _alone: alone }
    }

    fn keep(&mut self, name: &str) {
        if let Some(directory) = std::env::var_os("KILN_PICTURES") {
            std::fs::create_dir_all(&directory).unwrap();
            self.browser.picture(&PathBuf::from(directory).join(format!("{name}.png")));
        }
    }

    fn turn(&mut self, page: &str, text: &str) {
        self.browser.ask(&format!("location.hash = '{page}'"));
        self.browser.wait_text(text);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[test]
fn a_thousand_nodes_are_shown_and_updated_smoothly() {
    let mut lab = Lab::new(1000, Role::Viewer);
    // What disturbs the browser meanwhile is not counted.
    let drawn_in = |lab: &mut Lab| {
        let best = "Math.min(...performance.getEntriesByName('kiln-draw').map((entry) => entry.duration))";
        lab.browser.ask(best).as_f64().unwrap()
    };
    let first = drawn_in(&mut lab);
    lab.browser.ask("performance.clearMeasures()");
    // Cells that did not change are still the same elements.
    lab.browser.ask("document.querySelectorAll('.grid a').forEach((cell) => { cell.mark = true; })");
    let drawn: u64 =
        lab.browser.ask("document.getElementById('main').dataset.drawn").as_str().unwrap().parse().unwrap();
    lab.browser
        .wait("updates", &format!("Number(document.getElementById('main').dataset.drawn) > {}", drawn + 4));
    let later = drawn_in(&mut lab);
    println!("1000 nodes: first drawn in {first:.0} ms, updated in {later:.0} ms");
    // A machine that runs other tests beside this takes longer; without them it is a tenth.
    assert!(later < 500.0, "{later} ms");
    assert_eq!(lab.browser.ask("[...document.querySelectorAll('.grid a')].every((cell) => cell.mark)"), true);
    assert_eq!(lab.browser.complaints, [""; 0]);
    lab.keep("overview");
    lab.browser.dark(true);
    lab.keep("overview-dark");
    lab.browser.size(390, 844);
    lab.keep("overview-phone");
    assert_eq!(
        lab.browser.ask("document.documentElement.scrollWidth <= innerWidth"),
        true,
        "wider than a phone"
    );
}

#[test]
fn every_page_shows_what_it_is_for() {
    let mut lab = Lab::new(200, Role::Operator);
    lab.browser.wait_text("Cores by account");
    lab.browser.wait_text("physics 3264 cores");
    lab.browser.wait_text("jobs waiting, between 4 and 40 in the last day");
    lab.browser.wait_text("2,112.0 h");
    lab.browser.wait_text("cost 528.00");
    lab.turn("#/nodes?kind=down", "Slurm has given it up");
    assert_eq!(lab.browser.ask("document.getElementById('filter-kind').value"), "down");
    let only =
        "[...document.querySelectorAll('tbody .kind')].every((kind) => kind.textContent.includes('down'))";
    assert_eq!(lab.browser.ask(only), true);
    lab.keep("nodes");
    lab.turn("#/nodes/node-0000", "Kiln has nothing to do.");
    lab.browser.wait_text("rebuilt to compute-2026-11-01");
    lab.keep("node");
    whose_cores(&mut lab);
    lab.turn("#/jobs?state=PENDING", "Jobs of account physics have used up the time on cores");
    // A job's name is any user's text.
    assert_eq!(lab.browser.ask("document.querySelector('tbody b') === null"), true);
    lab.browser.wait_text("train<b>");
    lab.keep("jobs");
    lab.browser.size(390, 844);
    lab.keep("jobs-phone");
    assert_eq!(
        lab.browser.ask("document.documentElement.scrollWidth <= innerWidth"),
        true,
        "wider than a phone"
    );
    lab.browser.size(1400, 1000);
    past_jobs(&mut lab);
    lab.turn("#/events", "olga has logged in");
    lab.keep("events");
    lab.turn("#/rollouts", "Rollout 7");
    lab.keep("rollouts");
    lab.turn("#/rollouts/7", "2 packages: 1 changed, 1 added, 0 removed.");
    lab.turn("#/health", "slurmctld does not work");
    for text in [
        "fatal: cannot open state",
        "1 service with a problem, 1 node without a report of the present.",
        "how things are now is not known",
        "good until",
        "45 % full, 22 GiB of 40 GiB free",
        "as on control",
    ] {
        lab.browser.wait_text(text);
    }
    lab.keep("health");
    lab.fake.mend();
    lab.browser.wait_text("All services that were reported work");
    lab.turn("#/images", "compute-2026-11-01");
    lab.browser.wait_text("45 d 0 h ago");
    lab.keep("images");
    lab.turn("#/images/compute-2026-11-01", "No compute node runs it.");
    lab.browser.ask("document.getElementById('other').value = 'compute-2026-10-01'");
    lab.browser.ask("document.getElementById('other').dispatchEvent(new Event('change'))");
    lab.browser.wait_text("2 differences");
    for (package, what) in [("openmpi-bin", "another version"), ("perf", "only here")] {
        let row = format!(
            "[...document.querySelectorAll('tbody tr')].some((row) => row.textContent.includes('{package}') \
             && row.textContent.includes('{what}'))"
        );
        assert_eq!(lab.browser.ask(&row), true, "{package}");
    }
    lab.keep("image");
    lab.turn("#/elastic", "Paused until");
    lab.browser.wait_text("s in the queue, 4 s in Kiln, 1 min at the cloud, 12 s to boot and be configured");
    lab.browser.wait_text("no valid host was found");
    lab.browser.wait_text("between 4 and 40 in the last day");
    lab.keep("elastic");
    assert_eq!(lab.browser.complaints, [""; 0]);
}

/// Every core that is taken has a letter, and the table says whose it is.
fn whose_cores(lab: &mut Lab) {
    lab.browser.wait("cores", "document.querySelectorAll('.cores .core').length === 68");
    let lettered = "[...document.querySelectorAll('.shares figure:first-child .core')].filter((core) => core.textContent).length";
    let named = "[...document.querySelectorAll('.node tbody tr')].reduce((sum, row) => sum + parseInt(row.cells[3].textContent), 0)";
    assert_eq!(lab.browser.ask(lettered), lab.browser.ask(named));
    assert_eq!(lab.browser.ask(lettered), 64);
    let described = "document.querySelector('.cores').getAttribute('aria-label')";
    assert_eq!(
        lab.browser.ask(described),
        "Cores: job 5000 has 0-31, job 5001 has 32-47, job 5002 has 48-63"
    );
    assert_eq!(lab.browser.ask("document.querySelectorAll('.memory span').length"), 3);
    fits_a_phone(lab, "node-phone");
}

fn past_jobs(lab: &mut Lab) {
    lab.turn("#/jobs/history?state=FAILED&user=eve", "exit code 127:0");
    assert_eq!(lab.browser.ask("document.getElementById('filter-user').value"), "eve");
    let only = "[...document.querySelectorAll('tbody tr')].every((row) => row.textContent.includes('eve') && row.textContent.includes('failed'))";
    assert_eq!(lab.browser.ask(only), true);
    lab.keep("history");
    // What is chosen stands in the address, and is asked for.
    lab.browser.ask(
        "(() => { const state = document.getElementById('filter-state'); state.value = ''; state.dispatchEvent(new Event('input')); })()",
    );
    let others =
        "[...document.querySelectorAll('tbody tr')].some((row) => row.textContent.includes('out of memory'))";
    lab.browser.wait("jobs in other states", others);
    assert_eq!(lab.browser.ask("location.hash"), "#/jobs/history?user=eve");
    fits_a_phone(lab, "history-phone");
    lab.turn("#/jobs/4997", "a command of its script was not found");
    for words in ["of 64.0 GiB asked for", "on cores, of", "solver", "Waited"] {
        lab.browser.wait_text(words);
    }
    lab.keep("job");
    fits_a_phone(lab, "job-phone");
    // One that still waits has why, from the queue.
    lab.turn("#/jobs/9003", "It waits for other jobs to end");
    lab.turn("#/jobs/limits", "reached");
    lab.browser.wait_text("wait until it is over");
    lab.browser.wait_text("all in use");
    lab.keep("limits");
    fits_a_phone(lab, "limits-phone");
    lab.turn("#/jobs/scheduler", "worth watching");
    lab.browser.wait_text("slurmdbd or its database is down or slow");
    lab.keep("scheduler");
    fits_a_phone(lab, "scheduler-phone");
    lab.fake.lose_accounting();
    lab.turn("#/jobs/history?user=ann", "The accounting does not answer");
    lab.browser.wait_text("5000");
    lab.turn("#/jobs/5000", "This is what the queue has");
    lab.browser.wait_text("running");
}

fn fits_a_phone(lab: &mut Lab, name: &str) {
    lab.browser.size(390, 844);
    lab.keep(name);
    let fits = lab.browser.ask("document.documentElement.scrollWidth <= innerWidth");
    assert_eq!(fits, true, "{name}: wider than a phone");
    lab.browser.size(1400, 1000);
}

/// With `KILN_UPDATE` they are renewed; without, they are made elsewhere, and every one of them must be in the documentation.
#[test]
fn pictures_for_the_documentation() {
    let mut lab = Lab::new(120, Role::Operator);
    lab.browser.size(1000, 620);
    let documentation = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let elsewhere = tempfile::tempdir().unwrap();
    let renewed = std::env::var_os("KILN_UPDATE").is_some();
    let folder = if renewed { documentation.as_path() } else { elsewhere.path() };
    for (name, page, text) in [
        ("overview", "#/", "Why jobs wait"),
        ("jobs", "#/jobs?state=PENDING", "have used up the time on cores"),
        ("history", "#/jobs/history", "The newest 200 jobs"),
        ("job", "#/jobs/4998", "solver"),
        ("shares", "#/nodes/node-0000", "Whose cores, memory and devices"),
        ("limits", "#/jobs/limits", "reached"),
        ("scheduler", "#/jobs/scheduler", "worth watching"),
        ("rollout", "#/rollouts/7", "node-0001"),
        ("elastic", "#/elastic", "at the cloud"),
        ("health", "#/health", "slurmctld does not work"),
    ] {
        // Three columns, to be seen at once.
        lab.browser.size(if name == "job" { 1300 } else { 1000 }, 620);
        lab.turn(page, text);
        if name == "shares" {
            lab.browser.wait("cores", "document.querySelector('.cores')");
            lab.browser.ask("document.querySelector('.shares').closest('section').scrollIntoView()");
        }
        lab.browser.picture(&folder.join(format!("{name}.png")));
        assert!(documentation.join(format!("{name}.png")).exists(), "{name}: run this with KILN_UPDATE=1");
    }
}

#[test]
fn an_operator_pauses_and_resumes_a_rollout_by_hand() {
    let mut lab = Lab::new(60, Role::Operator);
    lab.turn("#/rollouts/7", "node-0000 goes first");
    lab.browser.wait_text("At this pace it is over at");
    lab.browser.click("#order-pause");
    lab.browser.wait_text("Pause rollout 7?");
    lab.keep("confirmation");
    // The first button, which has the focus, changes nothing.
    lab.browser.press("Enter");
    lab.browser.wait("the question is gone", "!document.getElementById('confirm').open");
    // Nor is the next question answered by the end of the one before, however quickly it is asked.
    lab.browser.click("#order-pause");
    lab.browser.wait_text("Pause rollout 7?");
    lab.browser.ask(
        "document.querySelector('#confirm [value=no]').click(); document.getElementById('order-pause').click()",
    );
    lab.browser.click("#confirm-yes");
    lab.browser.wait_text("paused: nothing new begins until it is resumed");
    lab.keep("rollout-paused");
    lab.browser.click("#order-resume");
    lab.browser.click("#confirm-yes");
    lab.browser.wait("it goes on", "document.getElementById('order-pause')");
    lab.turn("#/events", "asked by olga");
    assert_eq!(lab.browser.complaints, [""; 0]);
}

#[test]
fn a_viewer_has_no_buttons_and_an_ended_session_no_pages() {
    let mut lab = Lab::new(60, Role::Viewer);
    lab.turn("#/rollouts/7", "node-0001");
    assert_eq!(
        lab.browser.ask("document.querySelectorAll('.buttons button:not(#confirm button)').length"),
        0
    );
    lab.browser.click("#logout");
    lab.browser.wait_text("Run kiln dashboard on the deploy host");
    lab.keep("login");
    let address = lab.address.clone();
    lab.browser.go(&format!("{address}/#/nodes"));
    lab.browser.wait("the login page", "location.pathname === '/login'");
    assert!(lab.fake.looks() > 0);
}

#[test]
fn everything_can_be_reached_by_keyboard() {
    let mut lab = Lab::new(60, Role::Viewer);
    for _ in 0..40 {
        lab.browser.press("Tab");
        if lab.browser.ask("document.activeElement.matches('.grid a')") == true {
            break;
        }
    }
    assert_eq!(lab.browser.ask("document.activeElement.matches('.grid a')"), true, "the grid has no stop");
    let name = "document.activeElement.getAttribute('aria-label').split(':')[0]";
    let first = lab.browser.ask(name);
    lab.browser.press("ArrowRight");
    assert_ne!(lab.browser.ask(name), first);
    let second = lab.browser.ask(name);
    lab.browser.press("Enter");
    lab.browser
        .wait("the node's page", &format!("document.querySelector('h1')?.textContent.startsWith({second})"));
}

/// Judged by axe-core, as others judge pages: on every page, light and dark.
#[test]
fn nothing_keeps_anybody_out() {
    let axe = std::env::var_os("KILN_AXE").expect("KILN_AXE: `./dev test unit` sets it");
    let axe = std::fs::read_to_string(axe).unwrap();
    // Its rollout goes on for as long as this takes.
    let mut lab = Lab::of(Fake::new(60), 60, Role::Operator);
    lab.browser.ask(&format!("{axe}; typeof axe.run"));
    let pages = [
        ("#/", "Why jobs wait"),
        ("#/nodes", "Name or reason"),
        ("#/nodes/node-0019", "Linux version 6.12"),
        ("#/jobs", "Number or name"),
        ("#/jobs/history", "The newest 200 jobs"),
        ("#/jobs/4998", "solver"),
        ("#/jobs/limits", "reached"),
        ("#/jobs/scheduler", "worth watching"),
        ("#/nodes/node-0000", "3 jobs with 64 of 64 cores"),
        ("#/rollouts", "Started"),
        ("#/rollouts/7", "node-0001"),
        ("#/images", "compute-2026-11-01"),
        ("#/images/compute-2026-10-01", "lib001"),
        ("#/elastic", "at the cloud"),
        ("#/health", "slurmctld does not work"),
        ("#/events", "Older events"),
    ];
    let mut found = String::new();
    for (dark, shade) in [(false, "light"), (true, "dark")] {
        lab.browser.dark(dark);
        for (page, text) in pages {
            lab.turn(page, text);
            found += &lab.violations(&format!("{page}, {shade}"));
        }
        lab.turn("#/rollouts/7", "node-0001");
        lab.browser.click("#order-pause");
        lab.browser.wait_text("Pause rollout 7?");
        found += &lab.violations(&format!("a question, {shade}"));
        lab.browser.press("Enter");
    }
    lab.browser.click("#logout");
    lab.browser.wait_text("Run kiln dashboard on the deploy host");
    // The page that was left may lead here once more; one that was asked for stays.
    let address = format!("{}/login?again", lab.address);
    lab.browser.go(&address);
    lab.browser.wait("the page", "location.search === '?again' && document.readyState === 'complete'");
    lab.browser.ask(&format!("{axe}; typeof axe.run"));
    for (dark, shade) in [(false, "light"), (true, "dark")] {
        lab.browser.dark(dark);
        found += &lab.violations(&format!("the login page, {shade}"));
    }
    assert_eq!(found, "", "\n{found}");
}

impl Lab {
    /// One line each, with where it is.
    fn violations(&mut self, page: &str) -> String {
        let run = "axe.run(document, { resultTypes: ['violations'] }).then((seen) => seen.violations.map((one) => \
             `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html + ' ' + node.failureSummary).join('; ')}`).join('\\n'))";
        let found = self.browser.ask(run);
        match found.as_str().unwrap() {
            "" => String::new(),
            found => format!("{page}: {found}\n"),
        }
    }
}

/// What a screen reader needs, as far as it can be counted.
#[test]
fn everything_has_a_name() {
    let mut lab = Lab::new(60, Role::Operator);
    for (page, text) in [
        ("#/", "Why jobs wait"),
        ("#/nodes", "Name or reason"),
        ("#/jobs", "Number or name"),
        ("#/jobs/history", "The newest 200 jobs"),
        ("#/jobs/4998", "solver"),
        ("#/jobs/limits", "reached"),
        ("#/jobs/scheduler", "worth watching"),
        ("#/nodes/node-0000", "3 jobs with 64 of 64 cores"),
        ("#/rollouts/7", "node-0001"),
        ("#/health", "slurmctld does not work"),
        ("#/events", "Older events"),
    ] {
        lab.turn(page, text);
        let unnamed = "[...document.querySelectorAll('a, button, input, select, img, [role=img]')].filter((e) => \
             !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length || e.hasAttribute('alt') || e.hidden)\
             ).map((e) => e.outerHTML)";
        assert_eq!(lab.browser.ask(unnamed), serde_json::json!([]), "{page}");
        let headings = "document.querySelectorAll('main h1').length";
        assert_eq!(lab.browser.ask(headings), 1, "{page}");
        let columns = "[...document.querySelectorAll('table')].every((t) => t.caption && t.tHead.querySelector('th[scope=col]'))";
        assert_eq!(lab.browser.ask(columns), true, "{page}");
        assert_eq!(lab.browser.ask("document.documentElement.lang"), "en");
    }
}

//! A real browser without a window: Debian's Chromium, driven through its DevTools protocol over a pair of pipes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

pub struct Browser {
    chromium: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    last: u64,
    /// Of the one page.
    session: Option<String>,
    /// What the page wrote to its console, and errors of its scripts.
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

/// Longer than any page here takes.
const PATIENCE: Duration = Duration::from_secs(120);

impl Browser {
    pub fn start() -> Browser {
        Browser::start_with("")
    }

    /// One that believes a server with this key, by the digest of its public part, and no other that nobody has signed for.
    #[allow(dead_code, reason = "not every test has a server with TLS")]
    pub fn trusting(key: &str) -> Browser {
        Browser::start_with(&format!("--ignore-certificate-errors-spki-list={key}"))
    }

    fn start_with(more: &str) -> Browser {
        let profile = tempfile::tempdir().expect("a profile");
        let flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars \
                     --disable-background-networking --disable-component-update --remote-debugging-pipe";
        // It reads orders from descriptor 3 and answers on 4, each message ended by a zero byte.
        let line = format!(
            "exec chromium {flags} {more} --user-data-dir=\"$0\" about:blank 3<&0 4>&1 </dev/null >/dev/null"
        );
        let mut chromium = Command::new("sh")
            .args(["-c", &line])
            .arg(profile.path())
            // It leaves directories there.
            .env("TMPDIR", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromium runs");
        let orders = chromium.stdin.take().expect("a pipe");
        let answers = BufReader::new(chromium.stdout.take().expect("a pipe"));
        let mut browser = Browser {
            chromium,
            orders,
            answers,
            last: 0,
            session: None,
            complaints: Vec::new(),
            _profile: profile,
        };
        let page = browser.order("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.order("Target.attachToTarget", &attached);
        browser.session = attached["sessionId"].as_str().map(String::from);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.order(domain, &json!({}));
        }
        browser
    }

    fn order(&mut self, method: &str, params: &Value) -> Value {
        self.try_order(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_order(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.orders.write_all(format!("{message}\0").as_bytes()).expect("chromium listens");
        loop {
            let mut bytes = Vec::new();
            self.answers.read_until(0, &mut bytes).expect("chromium answers");
            assert!(!bytes.is_empty(), "chromium has ended");
            let answer: Value = serde_json::from_slice(&bytes[..bytes.len() - 1]).expect("JSON");
            if answer["id"] == self.last {
                let error = &answer["error"];
                return if error.is_null() { Ok(answer["result"].clone()) } else { Err(error.clone()) };
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let entry = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => &event["params"]["exceptionDetails"],
            Some("Log.entryAdded") if event["params"]["entry"]["level"] == "error" => {
                &event["params"]["entry"]
            }
            _ => return,
        };
        self.complaints.push(entry.to_string());
    }

    pub fn go(&mut self, address: &str) {
        self.order("Page.navigate", &json!({ "url": address }));
    }

    /// What an expression is on the page; promises are awaited.
    pub fn ask(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.order("Runtime.evaluate", &params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    pub fn text(&mut self) -> String {
        self.ask("document.body.innerText").as_str().unwrap_or_default().to_string()
    }

    /// Waits until an expression is true on the page, which may be changing to another at the time.
    pub fn wait(&mut self, what: &str, expression: &str) {
        let start = Instant::now();
        loop {
            let params = json!({ "expression": format!("Boolean({expression})"), "returnByValue": true });
            // A page that is left meanwhile gives no answer.
            if self.try_order("Runtime.evaluate", &params).is_ok_and(|a| a["result"]["value"] == true) {
                return;
            }
            let is_late = start.elapsed() > PATIENCE;
            assert!(!is_late, "never: {what}\n{}\n{:?}", self.text(), self.complaints);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn wait_text(&mut self, text: &str) {
        let quoted = json!(text);
        self.wait(text, &format!("document.body && document.body.innerText.includes({quoted})"));
    }

    /// As a mouse would: at the middle of the element.
    #[allow(dead_code, reason = "not every test clicks")]
    pub fn click(&mut self, selector: &str) {
        let quoted = json!(selector);
        self.wait(selector, &format!("document.querySelector({quoted})?.getClientRects().length"));
        let place = self.ask(&format!(
            "(() => {{ const e = document.querySelector({quoted}); e.scrollIntoView({{block: 'center'}}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let params =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.order("Input.dispatchMouseEvent", &params);
        }
    }

    #[allow(dead_code, reason = "not every test types")]
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let code = match key {
                "Tab" => 9,
                "Enter" => 13,
                "ArrowRight" => 39,
                "ArrowDown" => 40,
                other => panic!("no code for {other}"),
            };
            let mut params = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if key == "Enter" {
                params["text"] = json!("\r");
            }
            self.order("Input.dispatchKeyEvent", &params);
        }
    }

    /// In pixels; narrow as a phone, or wide as a screen.
    pub fn size(&mut self, width: u32, height: u32) {
        let params =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.order("Emulation.setDeviceMetricsOverride", &params);
    }

    #[allow(dead_code, reason = "not every test looks at both")]
    pub fn dark(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.order("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    pub fn picture(&mut self, file: &Path) {
        let answer = self.order("Page.captureScreenshot", &json!({ "format": "png" }));
        let data = answer["data"].as_str().expect("a picture");
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).expect("base64");
        std::fs::write(file, bytes).expect("a file");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its many processes would go on writing into the profile for a while if only the first one were ended.
        let message = json!({ "id": self.last + 1, "method": "Browser.close" });
        let _ = self.orders.write_all(format!("{message}\0").as_bytes());
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) && matches!(self.chromium.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.chromium.kill();
        let _ = self.chromium.wait();
    }
}

//! A real browser, driven by its debugging protocol.
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use super::has_program;

/// Programs that are Chromium.
const PROGRAMS: [&str; 3] = ["chromium-headless-shell", "chromium", "chromium-browser"];

/// A browser with one page.
pub(crate) struct Browser {
    process: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    next: u64,
    /// What the page did in the meantime: requests, lines of the console, exceptions.
    pub(crate) events: Vec<Value>,
}

impl Browser {
    /// Starts it with its files in `folder`; `None` if Chromium is missing.
    pub(crate) fn start(folder: &Path) -> Option<Browser> {
        let program = PROGRAMS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
        if program.is_none() {
            has_program(PROGRAMS[0]);
        }
        let mut process = Command::new(program?)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--remote-debugging-port=0",
            ])
            .args(["--remote-allow-origins=*", "--no-first-run", "--hide-scrollbars", "about:blank"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // The program may be a script whose child is the browser.
            .process_group(0)
            .spawn()
            .unwrap();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let url = stderr
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("DevTools listening on ").map(|url| url.trim().to_string()));
        let url = url.expect("the browser says where it listens");
        let address = url.strip_prefix("ws://").unwrap().split('/').next().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (socket, _) = tungstenite::client(url.as_str(), stream).unwrap();
        let mut browser = Browser { process, socket, session: String::new(), next: 0, events: Vec::new() };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.ask("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().into();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }
    /// Carries out a command of the protocol.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut command = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            command["sessionId"] = self.session.clone().into();
        }
        self.socket.send(Message::text(command.to_string())).unwrap();
        loop {
            let message = self.socket.read().unwrap_or_else(|error| panic!("{method}: {error}"));
            let Ok(text) = message.to_text() else { continue };
            let Ok(mut message) = serde_json::from_str::<Value>(text) else { continue };
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            if message["method"].is_string() {
                self.events.push(message);
            }
        }
    }
    /// Opens a page and waits until its script has run.
    pub(crate) fn open(&mut self, url: &str) {
        self.ask("Page.navigate", json!({"url": url}));
        self.until("document.readyState === 'complete'");
    }
    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let ask = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.ask("Runtime.evaluate", ask);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].take()
    }
    /// Waits until an expression in the page is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.value(&format!("Boolean({expression})")) != json!(true) {
            let text = self.value("document.body?.innerText ?? ''");
            assert!(Instant::now() < end, "{expression} does not come about in\n{}", text.as_str().unwrap_or_default());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    /// The size of the page, and whether the user wishes it dark.
    pub(crate) fn shape(&mut self, width: u32, height: u32, scheme: &str) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", features);
    }
    /// Types text where the focus is.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.ask("Input.insertText", json!({"text": text}));
    }
    /// Presses a key, such as `Tab`.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            " " => (32, " "),
            _ => (0, ""),
        };
        let event = |kind: &str| {
            let mut event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            event
        };
        self.ask("Input.dispatchKeyEvent", event("keyDown"));
        self.ask("Input.dispatchKeyEvent", event("keyUp"));
    }
    /// Puts a file into a field for one.
    pub(crate) fn choose_file(&mut self, selector: &str, path: &Path) {
        let document = self.ask("DOM.getDocument", json!({}));
        let query = json!({"nodeId": document["root"]["nodeId"], "selector": selector});
        let node = self.ask("DOM.querySelector", query)["nodeId"].clone();
        self.ask("DOM.setFileInputFiles", json!({"files": [path], "nodeId": node}));
    }
    /// Writes a picture of the whole page, if `$DASHBOARD_PICTURES` names a folder for it.
    pub(crate) fn picture(&mut self, name: &str, whole: bool) {
        let Some(folder) = std::env::var_os("DASHBOARD_PICTURES") else { return };
        let ask = json!({"format": "png", "captureBeyondViewport": whole, "optimizeForSpeed": false});
        let data = self.ask("Page.captureScreenshot", ask)["data"].as_str().unwrap().to_string();
        let bytes = <base64ct::Base64 as base64ct::Encoding>::decode_vec(&data).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::File::create(Path::new(&folder).join(name)).unwrap().write_all(&bytes).unwrap();
    }
    /// The URLs requested by the page.
    pub(crate) fn requested(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_string()).collect()
    }
    /// The page's errors: exceptions, console errors, violations of its policy.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_bad = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            // Error statuses are reported there too; they are expected.
            Some("Log.entryAdded") => {
                let entry = &event["params"]["entry"];
                entry["level"] == "error" && entry["source"] != "network"
            }
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            _ => false,
        };
        self.events.iter().filter(is_bad).map(ToString::to_string).collect()
    }
}
impl Drop for Browser {
    fn drop(&mut self) {
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.process.wait();
    }
}

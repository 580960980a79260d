//! The dashboard of real daemons in a real Chromium: it shows the API's values.
//!
//! `.ci/peers` installs the browser. `DASHBOARD_PICTURES=FOLDER cargo test -p trib --test all dashboard::` writes pictures.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "real daemons take the time that they take")]

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Child,
    time::{Duration, Instant},
};

use crate::common::{self, Daemon, browser::Browser, config, file, http, http::Site};
use serde_json::json;

/// Texts of the cells of a table's body.
fn cells(browser: &mut Browser, body: &str) -> Vec<Vec<String>> {
    let script = format!(
        "[...document.querySelector('{body}').rows].map((row) => [...row.cells].map((cell) => cell.textContent.replaceAll('\\u00a0', ' ')))"
    );
    serde_json::from_value(browser.value(&script)).unwrap()
}
fn dashboard(site: &Site) -> String {
    format!("http://{}/dashboard/", site.address)
}
fn text(browser: &mut Browser, selector: &str) -> String {
    browser.value(&format!("document.querySelector({selector:?})?.textContent ?? ''")).as_str().unwrap().to_string()
}

#[test]
fn what_the_dashboard_shows_is_what_the_api_says() {
    let site = Site::new("psi", "");
    let original = file(site.path());
    common::put(site.path(), &original, "/lab/disk.iso");
    let Some(mut browser) = Browser::start(site.path()) else { return };
    // A browser that opens the listener's root is redirected there.
    browser.open(&format!("http://{}/", site.address));
    browser.until("document.querySelector('#connection.live') && document.querySelectorAll('#face-rows tr').length");
    assert_eq!(browser.value("location.pathname"), "/dashboard/");

    let status = site.get("/status").json();
    assert_eq!(text(&mut browser, "#label"), status["label"].as_str().unwrap());
    assert!(text(&mut browser, "#about").contains(status["version"].as_str().unwrap()));
    let faces = cells(&mut browser, "#face-rows");
    let face = &status["faces"][0];
    assert_eq!(faces.len(), status["faces"].as_array().unwrap().len());
    assert_eq!(faces[0][..3], [face["id"].as_str().unwrap(), face["neighbour"].as_str().unwrap(), "answers"]);
    assert!(text(&mut browser, "#graph").contains("server"), "the neighbour is a node of the picture");

    // A fetch by keyboard: into the first field, then on by Tab.
    let copy = site.path().join("copy");
    browser.value("document.querySelector('#begin input').focus()");
    browser.type_text("/lab/disk.iso");
    browser.press("Tab");
    browser.type_text(copy.to_str().unwrap());
    browser.press("Tab");
    browser.type_text("4");
    browser.press("Enter");
    browser.until("document.querySelector('.transfer .state.good')?.textContent.endsWith(': running')");
    browser.until(
        "document.querySelector('.paths').rows.length && document.querySelector('.transfer progress').value > 0",
    );
    let shown = cells(&mut browser, ".transfer .paths");
    let printed = site.get("/transfers").json()[0].clone();
    assert_eq!(shown[0][0], printed["paths"][0]["id"].as_str().unwrap());
    assert_eq!(shown[0][9], printed["paths"][0]["via"].as_str().unwrap());
    assert_eq!(cells(&mut browser, ".transfer .sources")[0][0], printed["sources"][0]["id"].as_str().unwrap());

    // Pause and resume by keyboard, with a new limit.
    browser.value("document.querySelector('.pause').focus()");
    browser.press("Enter");
    browser.until("document.querySelector('.transfer .state')?.textContent.endsWith(': paused')");
    browser.until("!document.querySelector('.resume').hidden");
    browser.value("document.querySelector('.resume').focus()");
    browser.press(" ");
    browser.until("document.querySelector('.transfer .state')?.textContent.endsWith(': running')");
    browser.value("document.querySelector('.transfer .actions input').focus()");
    browser.type_text("1000");
    browser.press("Enter");
    browser.until(
        "[...document.querySelectorAll('.transfer .state')].some((state) => state.textContent.endsWith(': done'))",
    );
    assert!(fs::read(&copy).unwrap() == fs::read(&original).unwrap());
    browser.until("document.querySelector('#transfer-list').textContent.replaceAll('\\u00a0', ' ').includes('2.86 MiB of 2.86 MiB (100.0 %)')");

    // Another one is cancelled.
    let other = site.path().join("other");
    let begin = json!({"name": "/lab/disk.iso", "output": {"path": other}, "limit_bits_per_second": 1_000_000});
    let begun = site.ask("POST", "/transfers", &begin).json();
    let id = begun["transfer"].as_str().unwrap();
    browser.until(&format!("document.querySelector('.transfer .state')?.textContent === '{id}: running'"));
    browser.value("document.querySelector('.transfer .cancel').click()");
    let failed =
        format!("[...document.querySelectorAll('.state')].some((state) => state.textContent === '{id}: failed')");
    browser.until(&failed);

    // Publishing by upload, and withdrawing.
    browser.choose_file("#publish [type=file]", &original);
    browser.value("document.querySelector('#publish [name=name]').focus()");
    browser.type_text("/home/up");
    browser.press("Enter");
    browser.until("document.querySelector('#publication-rows tr')?.cells[2].textContent === 'confirmed'");
    assert_eq!(cells(&mut browser, "#publication-rows")[0][..2], ["/home/up", "2.86 MiB"]);
    assert_eq!(site.get("/publications").json()[0]["name"], "/home/up");
    browser
        .value("document.querySelector('#list input').value = '/lab'; document.querySelector('#list').requestSubmit()");
    browser.until("document.querySelector('#name-rows tr')?.cells[0].textContent === '/lab/disk.iso'");
    browser.value("document.querySelector('#publication-rows button').click()");
    browser
        .until("!document.querySelector('#publication-rows tr') && !document.querySelector('#no-publications').hidden");

    // Errors are shown with a remedy.
    browser.value("document.querySelector('#begin input').value = '/a'; document.querySelector('#begin [name=output]').value = '/nowhere/x'");
    browser.value("document.querySelector('#begin').requestSubmit()");
    browser.until("!document.querySelector('#message').hidden && document.querySelector('#message').textContent.includes('/nowhere')");

    let own = format!("http://{}/", site.address);
    assert!(browser.requested().iter().all(|url| url.starts_with(&own)), "{:?}", browser.requested());
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn what_peers_are_called_is_text_and_never_markup() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let evil = "<img src=x onerror=pwn()>";
    let roles = r#""sender", "router", "resolver", "topology-manager""#;
    let port = common::port();
    let path = config(at, "server", roles, port, "[http]\nlisten = \"127.0.0.1:0\"\n");
    let written = fs::read_to_string(&path).unwrap().replace("label = \"server\"", &format!("label = {evil:?}"));
    fs::write(&path, written).unwrap();
    let (_server, manager) = Daemon::start_ready(at, &path);
    let more = format!("[[face]]\npeer = \"127.0.0.1:{port}\"\n[http]\nlisten = \"127.0.0.1:0\"\n");
    let (_receiver, ready) = Daemon::start_ready(at, &config(at, "receiver", r#""receiver", "sender""#, 0, &more));
    let address: SocketAddr = ready["http"].as_str().unwrap().parse().unwrap();
    let name = "/lab/%3Cimg%20src%3Dx%20onerror%3Dpwn()%3E";
    common::put(at, &file(at), name);
    let Some(mut browser) = Browser::start(at) else { return };
    browser.open(&format!("http://{address}/dashboard/"));
    browser.value("window.pwned = 0; window.pwn = () => { window.pwned += 1; }; 0");
    let begin = json!({"name": name, "output": {"path": at.join("<b>copy")}}).to_string();
    let begun = http::ask(address, "POST", "/api/v1/transfers", "", &begin);
    assert_eq!(begun.status, 200, "{}", begun.text());
    browser.until("document.querySelector('.transfer .state')?.textContent.endsWith(': done')");
    browser.until("document.querySelector('#face-rows tr')?.cells[1].textContent.includes('<img')");
    assert_eq!(cells(&mut browser, ".transfer .sources")[0][0], evil);
    browser.until(&format!("document.querySelector('#graph').textContent.includes({evil:?})"));
    browser.until(&format!("document.querySelector('#log').textContent.includes({evil:?})"));
    assert_eq!(
        browser.value("[window.pwned, document.images.length, document.querySelectorAll('script, b').length]"),
        json!([0, 0, 1])
    );
    // The topology manager knows all neighbours.
    let manager = manager["http"].as_str().unwrap().parse().unwrap();
    common::until("links", || http::ask(manager, "GET", "/api/v1/links", "", "").text().contains("receiver"));
    let links = http::ask(manager, "GET", "/api/v1/links", "", "").json();
    let ends: Vec<_> = links.as_array().unwrap().iter().map(|link| (&link["from"], &link["to"])).collect();
    assert!(
        ends.contains(&(&json!("receiver"), &json!(evil))) && ends.contains(&(&json!(evil), &json!("receiver"))),
        "{links}"
    );
    browser.open(&format!("http://{manager}/dashboard/"));
    browser.until("document.querySelector('#graph').textContent.includes('receiver')");
    assert_eq!(browser.value("document.images.length"), 0);
    // Even a script of the page could make no markup of text.
    let sink = "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'made'; } catch (error) { return error.name; } })()";
    assert_eq!(browser.value(sink), "TypeError");
}

#[test]
fn the_dashboard_asks_for_the_token_and_keeps_it_in_its_tab() {
    let site = Site::new("psi", "token_file = \"token\"\n");
    let token = fs::read_to_string(site.path().join("token")).unwrap();
    let Some(mut browser) = Browser::start(site.path()) else { return };
    browser.open(&dashboard(&site));
    browser.until("document.querySelector('#login').open");
    browser.type_text("a token that is wrong");
    browser.press("Enter");
    browser.until("document.querySelector('#login').open && !document.querySelector('#login input').value");
    browser.type_text(token.trim());
    browser.press("Enter");
    browser.until("document.querySelector('#connection.live') && document.querySelectorAll('#face-rows tr').length");
    assert_eq!(browser.value("[document.cookie, localStorage.length, location.search]"), json!(["", 0, ""]));
    assert!(browser.requested().iter().all(|url| !url.contains(token.trim())), "no address has the token");
}

/// A demo with its receiver's dashboard.
struct Demo(Child);
impl Drop for Demo {
    fn drop(&mut self) {
        // It ends its daemons itself.
        let _ = std::process::Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}
impl Demo {
    fn start(folder: &Path, address: SocketAddr) -> Demo {
        let mut command = common::trib(folder);
        command.args(["demo", "--size", "64MB", "--fail", "link@25", "--http", &address.to_string()]);
        let output = folder.join("demo.txt");
        let both = fs::File::create(&output).unwrap();
        let demo = Demo(command.stdout(both.try_clone().unwrap()).stderr(both).spawn().unwrap());
        let end = Instant::now() + Duration::from_secs(60);
        while std::net::TcpStream::connect(address).is_err() {
            assert!(Instant::now() < end, "the demo does not listen: {}", fs::read_to_string(&output).unwrap());
            std::thread::sleep(Duration::from_millis(50));
        }
        demo
    }
}

/// Luminance contrast of each text to its background (WCAG 2.2 §1.4.3), and overflowing elements.
const LOOK: &str = r"(() => {
  const channel = (value) => { value /= 255; return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
  const parse = (text) => text.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const weak = [];
  for (const element of document.querySelectorAll('h1, h2, h3, p, a, td, th, dt, dd, li, label, button, span, caption')) {
    if (!element.textContent.trim() || !element.getClientRects().length || element.closest('.hidden, .skip') || element.disabled) continue;
    const [one, other] = [luminance(parse(getComputedStyle(element).color)), luminance(ground(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) weak.push(`${element.tagName} ${element.textContent.slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  const unnamed = [...document.querySelectorAll('input, button, progress, svg[role]')].filter((element) =>
    !element.textContent.trim() && !element.labels?.length && !element.getAttribute('aria-label') && !element.getAttribute('aria-labelledby'));
  return { weak, unnamed: unnamed.map((element) => element.outerHTML), wide: document.documentElement.scrollWidth - innerWidth };
})()";

#[test]
fn the_dashboard_fits_narrow_and_wide_screens_dark_and_light_while_a_link_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(folder.path()) else { return };
    let address: SocketAddr = ([127, 0, 0, 1], common::port()).into();
    let _demo = Demo::start(folder.path(), address);
    browser.shape(1_920, 1_080, "light");
    browser.open(&format!("http://{address}/dashboard/"));
    browser.until("document.querySelectorAll('.paths tr').length > 2");
    browser.until("[...document.querySelectorAll('.paths tr')].some((row) => row.cells[7].textContent === 'silent')");
    let reasons: Vec<String> = cells(&mut browser, ".transfer .paths")
        .into_iter()
        .filter(|path| path[7] == "silent")
        .map(|path| path[8].clone())
        .collect();
    assert!(reasons.iter().all(|reason| !reason.is_empty()), "why a path is silent is said");
    let printed = http::ask(address, "GET", "/api/v1/transfers", "", "").json();
    let paths = printed[0]["paths"].as_array().unwrap().len();
    // The page polls the API once a second, so it shows a new path a little later.
    browser.until(&format!("document.querySelector('.transfer .paths').rows.length === {paths}"));
    browser.until("document.querySelectorAll('.chart polyline').length > 4");
    for (width, height) in [(1_920, 1_080), (1_024, 768), (768, 1_024), (360, 780)] {
        for scheme in ["light", "dark"] {
            browser.shape(width, height, scheme);
            std::thread::sleep(Duration::from_millis(300));
            let look = browser.value(LOOK);
            assert_eq!(look, json!({"weak": [], "unnamed": [], "wide": 0}), "{width} {scheme}");
            browser.picture(&format!("dashboard-{width}-{scheme}.png"), false);
            browser.picture(&format!("whole-{width}-{scheme}.png"), true);
        }
    }
    // By keyboard: each control is reached, in the order of the page.
    browser.shape(1_920, 1_080, "light");
    browser.value("document.activeElement.blur()");
    let mut reached = Vec::new();
    for _ in 0..40 {
        browser.press("Tab");
        let name =
            browser.value("document.activeElement.name || document.activeElement.textContent.trim().slice(0, 20)");
        reached.push(name.as_str().unwrap_or_default().to_string());
    }
    for control in
        ["Skip to the transfer", "Transfers", "Log", "output", "Fetch", "Set", "Cancel", "Publish", "scope", "List"]
    {
        assert!(reached.iter().any(|name| name == control), "{control} is not reached: {reached:?}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// What a hostile page tries: reading, and commands in each form that needs no question first.
const HOSTILE: &str = r"<!doctype html><title>wait</title><script>
  const to = 'http://ADDRESS/api/v1';
  const steal = JSON.stringify({ name: '/x', output: { path: '/tmp/stolen' } });
  const tries = [
    fetch(to + '/status').then((got) => got.text()).then(() => 'read'),
    fetch(to + '/transfers', { method: 'POST', body: steal, headers: { 'content-type': 'application/json' } }).then((got) => (got.ok ? 'sent' : 'refused')),
    fetch(to + '/transfers', { method: 'POST', body: steal, mode: 'no-cors' }).then(() => 'opaque'),
    fetch(to + '/limit', { method: 'PUT', body: '{}' }).then(() => 'sent'),
    new Promise((done, fail) => { const events = new EventSource(to + '/events'); events.onmessage = done; events.onerror = fail; }),
  ];
  Promise.allSettled(tries).then((all) => {
    document.title = all.map((one) => one.value ?? 'blocked').join(' ');
  });
</script>";

#[test]
fn pages_of_objects_and_of_other_sites_get_nothing_in_a_real_browser() {
    let site = Site::new("psi", "");
    let Some(mut browser) = Browser::start(site.path()) else { return };
    let hostile = HOSTILE.replace("ADDRESS", &site.address.to_string());
    let page = site.path().join("page.html");
    fs::write(&page, &hostile).unwrap();
    common::put(site.path(), &page, "/page.html");
    // Another port is another site for origins, but the same one for cookies.
    let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = elsewhere.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in elsewhere.incoming().flatten() {
            use std::io::{Read, Write};
            let _ = stream.read(&mut [0; 4_096]);
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", hostile.len());
            let _ = stream.write_all((head + &hostile).as_bytes());
        }
    });
    for url in [format!("http://{}/page.html", site.address), format!("http://{other}/")] {
        browser.open(&url);
        browser.until("document.title !== 'wait'");
        assert_eq!(browser.value("document.title"), "blocked blocked blocked blocked blocked", "{url}");
    }
    let transfers = site.get("/transfers").json();
    // The gateway has fetched the page itself.
    let begun: Vec<_> = transfers.as_array().unwrap().iter().filter(|one| one["name"] != "/page.html").collect();
    assert!(begun.is_empty(), "a page has begun a fetch: {begun:?}");
}

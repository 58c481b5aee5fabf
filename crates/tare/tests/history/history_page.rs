//! The page of a history: its tables, and the server that follows the directory.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tare_analysis::history::series;
use tare_plan::Margins;
use tare_records::history::HistoryEntry;
use tare_report::{HistoryDir, render_history_page, render_live_history_page};

use crate::support;

const TODAY: &str = "2026-11-25";
/// Upper limit of every wait.
const LIMIT: Duration = Duration::from_secs(60);

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/history")
        .join(name)
}

/// The patrol of 2018 and that of ten releases: two plans on two hosts.
fn both() -> Vec<HistoryEntry> {
    let read = |name| HistoryDir::read(&data(name)).unwrap().entries;
    [read("istio-2018"), read("envoy-2026")].concat()
}

fn page(entries: &[HistoryEntry]) -> String {
    let all = series(entries, &[], &Margins::default(), TODAY);
    render_history_page(entries, &all, &[])
}

/// The parts of `text` that begin with `start`.
fn parts<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    text.split(start).skip(1).collect()
}

#[test]
fn each_plan_and_host_has_a_table_of_its_builds_with_verdicts() {
    let page = page(&both());
    let groups = parts(&page, "<section class=\"group\"");
    let [envoy, istio] = groups[..] else {
        panic!("{} groups", groups.len());
    };
    // The group of the latest entry is the first.
    assert!(envoy.contains("data-plan=\"patrol\" data-host=\"AMD EPYC, 2 cores, Linux"));
    assert!(istio.contains("data-plan=\"Acme Air\" data-host=\"IBM Container Service\""));
    let figures = |group: &str| -> Vec<String> {
        let figures = parts(group, "data-figure=\"").into_iter();
        figures
            .map(|f| f.split('"').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        figures(envoy),
        ["p50", "p99", "CPU per request", "proxy memory"]
    );
    assert_eq!(figures(istio), ["throughput"]);
    // The first figure is shown without scripts.
    assert_eq!(envoy.matches(" checked>").count(), 1);
    assert!(envoy.contains("id=\"figure-0-0\" checked>"));

    let rows = parts(envoy, "<tr data-e=\"");
    assert_eq!(rows.len(), 4 * 11);
    let newest = "18\"><th scope=\"row\">1.36.2</th><td class=\"l\">2026-11-25 09:50</td><td>1.31 ms</td>\
        <td>4.02 ms</td><td>4.13 ms</td><td>x2.93 (2.80 to 3.05)</td><td>x3.03 (2.91 to 3.16)</td>\
        <td class=\"l\"><span class=\"steady\">no change found</span></td></tr>";
    assert!(rows[0].starts_with(newest), "{}", rows[0]);
    let rows = parts(istio, "<tr data-e=\"");
    let changed: Vec<_> = rows
        .iter()
        .filter(|r| !r.contains("class=\"steady\""))
        .collect();
    let [outlier] = changed[..] else {
        panic!("{changed:?}");
    };
    assert!(outlier.starts_with("2\"><th scope=\"row\">0.8.0-pre20180404-09-15</th>"));
    let words = "<span class=\"changed\">throughput: A: Istio full x0.224 (outlier)</span>";
    assert!(outlier.contains(words), "{outlier}");
    assert!(page.contains("<li><a href=\"#build=acmeair-0.8.0-pre20180404-09-15\">"));

    // A line for each variant of each figure; the memory of `bare` does not exist.
    assert_eq!(envoy.matches("<polyline points").count(), 3 * 3 + 2 + 4 * 2);
    assert_eq!(istio.matches("<polyline points").count(), 3 + 2);
}

#[test]
fn few_entries_have_no_verdict() {
    let entries = &both()[..4];
    let page = page(entries);
    assert!(page.contains("Changes can be detected from 5 entries on"));
    assert!(!page.contains("class=\"steady\""));
}

#[test]
fn only_a_served_page_may_connect() {
    let entries = both();
    let policy =
        |page: &str| page.split("Content-Security-Policy").nth(1).unwrap()[..400].to_owned();
    let site = page(&entries);
    assert!(!policy(&site).contains("connect-src") && !site.contains("<body data-live>"));
    let live = render_live_history_page(&entries, &[], &[]);
    assert!(policy(&live).contains("connect-src 'self'") && live.contains("<body data-live>"));
}

/// A server, which is killed if the test fails.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn whole(address: &str) -> String {
    let mut answer = String::new();
    get(address, "/").read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_served_page_follows_its_directory_until_an_interrupt() {
    let dir = tempfile::tempdir().unwrap();
    let entries = HistoryDir::read(&data("envoy-2026")).unwrap().entries;
    let (last, first) = entries.split_last().unwrap();
    for entry in first {
        HistoryDir::add(dir.path(), entry).unwrap();
    }
    let mut command = Command::new(support::TARE);
    command.args([Path::new("history"), dir.path(), Path::new("--serve")]);
    let mut server = Server(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let mut errors = BufReader::new(server.0.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap();
    let address = address.split('/').next().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{line}");

    assert!(whole(&address).contains("<p>10 entries."));
    let mut events = BufReader::new(get(&address, "/events"));
    // The server counts a change for this connection only after it has sent the headers.
    line.clear();
    while line != "\r\n" {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0, "no headers");
    }
    HistoryDir::add(dir.path(), last).unwrap();
    while !line.contains("\"done\"") {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0, "no event");
    }
    assert!(whole(&address).contains("<p>11 entries."));
    // An error is shown, and the page continues to follow the directory.
    std::fs::write(dir.path().join("annotations.yaml"), "- {note: no build}\n").unwrap();
    line.clear();
    while !line.contains("\"done\"") {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0, "no event");
    }
    let broken = whole(&address);
    assert!(broken.contains("annotations.yaml") && broken.contains("<body data-live>"));

    let pid = server.0.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_history_is_served_on_loopback_only() {
    let dir = data("envoy-2026");
    for (serve, code) in [("--serve=0.0.0.0:80", 2), ("--serve=10.0.0.1:8080", 2)] {
        let mut command = Command::new(support::TARE);
        let output = command
            .arg("history")
            .arg(&dir)
            .arg(serve)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains("127.0.0.1 only"), "{errors}");
    }
}

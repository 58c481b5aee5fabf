//! `tare run --profile` and the data plane `exec`, with a small proxy of these tests, with and without a
//! planted busy function.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

/// The test that acts as the sidecar.
const SIDECAR: &str = "profile::the_sidecar_of_other_tests";

/// Environment variable with the address of the test that starts sidecars.
const SPAWNER: &str = "TARE_TEST_SPAWNER";

/// Work of a fixed amount for each request, in a function with a name of its own. It calls nothing, so
/// that each sample in it has it as the innermost function.
#[inline(never)]
fn planted_busy_function(seed: u64) -> u64 {
    let (mut left, mut x) = (400_000_u64, seed | 1);
    while left > 0 {
        left -= 1;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

fn forward(mut from: TcpStream, mut to: TcpStream, busy: bool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if busy {
            std::hint::black_box(planted_busy_function(n as u64));
        }
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Forwards the bytes of connections from the first address among the arguments to the second one.
#[test]
#[ignore = "a sidecar of other tests"]
fn the_sidecar_of_other_tests() {
    let addresses: Vec<SocketAddr> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let busy = std::env::args().any(|a| a == "busy");
    let parent = std::os::unix::process::parent_id();
    std::thread::spawn(move || {
        while std::os::unix::process::parent_id() == parent {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::process::exit(0);
    });
    let listener = TcpListener::bind(addresses[0]).unwrap();
    for client in listener.incoming().flatten() {
        let Ok(server) = TcpStream::connect(addresses[1]) else {
            continue;
        };
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
        }
        let (client2, server2) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || forward(client, server, busy));
        std::thread::spawn(move || forward(server2, client2, false));
    }
}

/// Asks the test for a sidecar, which is then not a process of this one, and runs as long as that.
#[test]
#[ignore = "a sidecar of other tests"]
fn the_client_of_other_tests() {
    let addresses = std::env::args().filter(|a| a.parse::<SocketAddr>().is_ok());
    let addresses: Vec<String> = addresses.collect();
    let mut test = TcpStream::connect(std::env::var(SPAWNER).unwrap()).unwrap();
    writeln!(test, "{}", addresses.join(" ")).unwrap();
    let _ = test.read(&mut [0]);
}

/// Starts sidecars for the clients that connect, and ends them with their clients. Returns its address.
fn start_spawner() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut client = BufReader::new(client);
                let mut line = String::new();
                client.read_line(&mut line).unwrap();
                let mut sidecar = Command::new(std::env::current_exe().unwrap());
                let flags = [SIDECAR, "--exact", "--ignored", "--nocapture"];
                sidecar.args(flags).args(line.split_whitespace());
                let mut sidecar = sidecar.spawn().unwrap();
                let _ = client.read(&mut [0]);
                sidecar.kill().unwrap();
                sidecar.wait().unwrap();
            });
        }
    });
    address
}

/// Writes the plan and its mesh file: the proxy of these tests, its variant with the planted function, and one
/// whose work is done by a process that tare has not started.
fn write_plan(dir: &Path, meshes: &str) {
    let program = std::env::current_exe().unwrap();
    let program = program.display();
    let arguments =
        format!("{SIDECAR}, --exact, --ignored, --nocapture, '{{listen}}', '{{upstream}}'");
    let escaped = arguments.replace(SIDECAR, "profile::the_client_of_other_tests");
    let mesh = format!(
        "name: proxy
data_plane: proxy
proxy: {{command: ['{program}', {arguments}]}}
variants:
  busy: {{proxy: {{command: ['{program}', {arguments}, busy]}}}}
  escaped: {{proxy: {{command: ['{program}', {escaped}]}}}}
"
    );
    std::fs::write(dir.join("proxy.yaml"), mesh).unwrap();
    let plan = format!(
        "name: profiled
workload: {{graph: chain-2, instances: 1}}
mesh_files: [proxy.yaml]
meshes: {meshes}
load: {{rate: 25, connections: 4, duration: 4s, warmup: 300ms, timeout: 60s}}
repeats: 2
reruns: 0
"
    );
    std::fs::write(dir.join("plan.yaml"), plan).unwrap();
}

fn run(dir: &Path, mut command: Command) -> Output {
    let command = command
        .args(["run", "plan.yaml", "--out", "out", "--profile"])
        .env("TARE_LOCK_DIR", dir.join("lock"))
        .current_dir(dir);
    command.output().unwrap()
}

fn tare() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tare"))
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn count(dir: &Path) -> usize {
    std::fs::read_dir(dir).map_or(0, Iterator::count)
}

/// Whether this machine permits perf events to the user of the tests.
fn permitted() -> bool {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid: i32 = paranoid.unwrap_or_default().trim().parse().unwrap_or(4);
    paranoid <= 0 || rustix::process::geteuid().is_root()
}

/// The time of each function that the reference lacks, in the stacks of a difference: with all that it calls.
fn new_functions(folded: &str) -> BTreeMap<String, f64> {
    let mut times: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for line in folded.lines() {
        let mut parts = line.rsplitn(3, ' ');
        let [mesh, reference] = [(); 2].map(|()| parts.next().unwrap().parse::<f64>().unwrap());
        let mut frames: Vec<&str> = parts.next().unwrap().split(';').skip(1).collect();
        frames.sort_unstable();
        frames.dedup();
        for frame in frames {
            let sums = times.entry(frame).or_default();
            sums[0] += reference;
            sums[1] += mesh;
        }
    }
    let new = times
        .into_iter()
        .filter(|(_, [reference, _])| *reference == 0.0);
    new.map(|(name, [_, mesh])| (name.to_owned(), mesh))
        .collect()
}

#[test]
fn a_planted_function_is_the_widest_new_frame_and_the_measured_trials_are_as_without() {
    let dir = tempfile::tempdir().unwrap();
    write_plan(dir.path(), "[proxy, proxy/busy]");
    let output = run(dir.path(), tare());
    let errors = String::from_utf8_lossy(&output.stderr);
    let out = dir.path().join("out");
    assert_eq!(
        count(&out.join("trials")),
        4,
        "2 meshes x 2 blocks: {errors}"
    );
    let summary = json(&out.join("summary.json"));
    assert_eq!(summary["trials_planned"], 4);
    assert_eq!(summary["trials"].as_array().unwrap().len(), 4);
    let trial = |row: &Value| {
        json(
            &out.join("trials")
                .join(row["dir"].as_str().unwrap())
                .join("result.json"),
        )
    };
    for row in summary["trials"].as_array().unwrap() {
        let result = trial(row);
        assert_eq!(result["trial"]["profile"], Value::Null, "{result}");
        let proofs = result["proofs"].as_array().unwrap();
        let held =
            |p: &Value| p["holds"] == true && p["claim"].as_str().unwrap().contains("stopped");
        assert_eq!(proofs.iter().filter(|p| held(p)).count(), 2, "{proofs:?}");
    }
    if !permitted() {
        assert!(errors.contains("no profile trials"), "{errors}");
        return;
    }
    assert_eq!(count(&out.join("profiles/trials")), 2, "{errors}");
    let profiles = &summary["profiles"];
    let difference = &profiles["differences"][0];
    assert_eq!(difference["mesh"], "proxy/busy", "{profiles}");
    let folded = std::fs::read_to_string(out.join(difference["folded"].as_str().unwrap())).unwrap();
    let mut new: Vec<(String, f64)> = new_functions(&folded).into_iter().collect();
    new.sort_by(|a, b| b.1.total_cmp(&a.1));
    let planted = |name: &str| name.contains("planted_busy_function");
    assert!(planted(&new[0].0), "{new:?}");
    assert!(
        new.get(1).is_none_or(|next| next.1 * 3.0 < new[0].1),
        "{new:?}"
    );
    let first = &difference["functions"][0];
    assert!(planted(first["function"].as_str().unwrap()), "{difference}");
    let svg = std::fs::read_to_string(out.join(difference["graph"].as_str().unwrap())).unwrap();
    assert!(svg.contains("planted_busy_function"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains(difference["graph"].as_str().unwrap()),
        "{text}"
    );
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("What proxy/busy adds to proxy"));
    opens_in_pprof(&out, profiles);
}

/// Reads each file with the tool for it, where Go is installed.
fn opens_in_pprof(out: &Path, profiles: &Value) {
    for mesh in profiles["meshes"].as_array().unwrap() {
        for plane in mesh["planes"].as_array().unwrap() {
            let mut pprof = Command::new("go");
            pprof.args(["tool", "pprof", "-top"]);
            let Ok(output) = pprof
                .arg(out.join(plane["pprof"].as_str().unwrap()))
                .output()
            else {
                return;
            };
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && text.contains("Type: cpu"),
                "{output:?}"
            );
            if mesh["mesh"] == "proxy/busy" && plane["plane"] == "data_plane" {
                assert!(text.contains("planted_busy_function"), "{text}");
            }
        }
    }
}

#[test]
fn without_permission_the_run_ends_as_without_profile() {
    let dir = tempfile::tempdir().unwrap();
    write_plan(dir.path(), "[bare, proxy]");
    // Root without the capabilities that perf events need, as in a container.
    let mut command = Command::new("setpriv");
    command.arg("--bounding-set=-perfmon,-sys_admin");
    command.arg(env!("CARGO_BIN_EXE_tare"));
    let root = rustix::process::geteuid().is_root();
    let output = run(dir.path(), if root { command } else { tare() });
    let errors = String::from_utf8_lossy(&output.stderr);
    let out = dir.path().join("out");
    assert_eq!(count(&out.join("trials")), 4, "{errors}");
    let summary = json(&out.join("summary.json"));
    let paranoid =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse().is_ok_and(|level: i32| level <= 0) {
        // This machine permits perf events to everyone.
        assert!(summary["profiles"].is_object(), "{errors}");
        return;
    }
    assert_eq!(summary["profiles"], Value::Null);
    assert!(!out.join("profiles").exists());
    let remedy = "sudo sysctl kernel.perf_event_paranoid=0";
    assert!(
        errors.contains("no profile trials") && errors.contains(remedy),
        "{errors}"
    );
    let notes = summary["notes"].to_string();
    assert!(notes.contains("no profile trials"), "{notes}");
    // A debug build is suspect, but no trial is invalid because of the option.
    let no_profile = |row: &Value| !row["verdict"].to_string().contains("profile");
    assert!(summary["trials"].as_array().unwrap().iter().all(no_profile));
}

#[test]
fn a_sidecar_whose_work_another_process_does_is_not_proven() {
    let dir = tempfile::tempdir().unwrap();
    write_plan(dir.path(), "[bare, proxy/escaped]");
    let mut command = tare();
    command.env(SPAWNER, start_spawner().to_string());
    let output = run(dir.path(), command);
    let errors = String::from_utf8_lossy(&output.stderr);
    let summary = json(&dir.path().join("out/summary.json"));
    let text = summary["trials"].to_string();
    assert!(
        text.contains("got a response although the sidecar was stopped"),
        "{errors}\n{text}"
    );
    assert_eq!(summary["grade"], "invalid");
}

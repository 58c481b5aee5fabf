//! Programs of the user, without processes.

use tare_plan::Workload;
use tare_plan::graph::ProgramNetwork;

use super::prove::{Counted, Expected};
use super::*;

fn graph() -> ServiceGraph {
    serde_json::from_value(serde_json::json!({
        "name": "own",
        "services": [
            {"name": "front", "protocol": "http", "command": {"run": ["front", "{url:back}"]},
             "endpoints": [{"path": "/", "calls": [{"service": "back", "path": "/items", "times": 2},
                                                     {"service": "back", "path": "/", "share": 0.5}]}]},
            {"name": "back", "protocol": "http", "endpoints": [
                {"path": "/items", "calls": [{"service": "store", "path": "/"}]}, {"path": "/"}]},
            {"name": "store", "protocol": "tcp", "endpoints": [{"path": "/"}]},
        ],
        "mixes": [{"name": "default", "endpoints": [{"name": "home", "service": "front", "path": "/"}]}],
    }))
    .unwrap()
}

#[test]
fn calls_that_go_past_a_sidecar_are_found() {
    let graph = graph();
    graph.validate().unwrap();
    let workload = Workload {
        graph,
        instances: 1,
        mix: "default".to_owned(),
    };
    let topology = Topology::new(&workload, 70).unwrap();
    let mut expected = Expected::default();
    expected.add(&workload.graph, "front", "/?x=1", 1);
    let both = Sides(Some(tare_plan::mesh::Placement::Both));
    let check = |place: usize, received, made| {
        let pod = &topology.pods[place];
        let service = pod.service.as_ref().unwrap();
        expected.check(both, pod, service, Counted { received, made })
    };
    assert_eq!(check(1, 1, 2), Ok(None));
    let error = check(1, 1, 1).unwrap_err();
    assert!(
        error.starts_with("1 requests left the sidecar of own-0/front, expected at least 2"),
        "{error}"
    );
    assert_eq!(check(2, 2, 0), Ok(None), "calls over TCP are not counted");
    let error = check(2, 0, 0).unwrap_err();
    assert!(
        error.starts_with("0 requests reached the sidecar of own-0/back, expected at least 2"),
        "{error}"
    );
    assert_eq!(check(3, 0, 0), Ok(None));
}

#[test]
fn addresses_on_which_programs_would_collide_are_refused() {
    let workload = |instances| Workload {
        graph: graph(),
        instances,
        mix: "default".to_owned(),
    };
    let misplaced = |instances, listening: &[&str]| {
        let workload = workload(instances);
        let topology = Topology::new(&workload, 70).unwrap();
        let pod = &topology.pods[1];
        let program = Program::of(&topology, pod, &workload.graph, Sides(None), Path::new("/"));
        let listening: Vec<SocketAddr> = listening.iter().map(|a| a.parse().unwrap()).collect();
        program.unwrap().unwrap().misplaced_among(&listening)
    };
    let own = "127.70.0.2:15080";
    assert_eq!(misplaced(2, &[]), None);
    assert_eq!(misplaced(2, &[own, "127.70.0.2:9090"]), None);
    assert_eq!(
        misplaced(1, &[own, "127.0.0.1:9090"]),
        None,
        "nobody else has this port"
    );
    let found = misplaced(2, &[own, "127.0.0.1:9090"]).unwrap();
    assert!(found.starts_with("it listens on 127.0.0.1:9090 as well, which another instance"));
    let found = misplaced(1, &["0.0.0.0:15080"]).unwrap();
    assert!(
        found.starts_with("it listens on all addresses (0.0.0.0:15080)"),
        "{found}"
    );
    let expected =
        "it listens on 127.70.0.2:8080; expected only 127.70.0.2:15080, which is {address}";
    let found = misplaced(1, &["127.70.0.2:8080"]).unwrap();
    assert_eq!(found, format!("{expected}{PERMITTED}"));
}

/// The other instance listens always on the same port of 127.0.0.1.
#[test]
fn the_program_that_has_taken_a_port_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let workload = Workload {
        graph: graph(),
        instances: 2,
        mix: "default".to_owned(),
    };
    let topology = Topology::new(&workload, 70).unwrap();
    let pod = &topology.pods[1];
    let program = Program::of(&topology, pod, &workload.graph, Sides(None), dir.path());
    let program = program.unwrap().unwrap();
    let ended = "ended with exit status: 1: Address already in use";
    let elsewhere = format!("; a port that it uses is in use by another program{PERMITTED}");
    assert_eq!(program.port_taken(ended), elsewhere);
    let node = "ended with exit status: 1: Error: listen EADDRINUSE 127.0.0.1:9090";
    assert_eq!(program.port_taken(node), elsewhere);

    let listen = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); \
                  print(s.getsockname()[1], flush=True); time.sleep(600)";
    let mut other = std::process::Command::new("python3")
        .args(["-c", listen])
        .env(MARK, dir.path().join("own-1-front"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    let mut lines = std::io::BufReader::new(other.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut port).unwrap();
    let found = program.port_taken(ended);
    let otherwise = program.port_taken("ended with exit status: 1");
    other.kill().unwrap();
    other.wait().unwrap();
    let expected = format!(
        "; own-1-front listens on 127.0.0.1:{}{PERMITTED}",
        port.trim()
    );
    assert_eq!(found, expected);
    assert_eq!(otherwise, "");
}

/// A process that stands for a keeper: of this name, with a child that nothing marks, which it ends
/// before itself.
const KEEPER: &str = "
import os, signal, subprocess, sys, time
open('/proc/self/comm', 'w').write('keeper')
child = subprocess.Popen(['sleep', '600'], env={})
def end(*_):
    time.sleep(0.2)
    child.kill()
    child.wait()
    sys.exit(0)
signal.signal(signal.SIGUSR1, end)
print(child.pid, flush=True)
while True: signal.pause()
";

#[test]
fn keepers_end_their_processes_before_the_rest_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("own-0-front").display().to_string();
    let by_mark: fn(&str) = |mark| {
        drop(Programs {
            marks: vec![("own-0/front".to_owned(), mark.to_owned())],
        });
    };
    let by_directory: fn(&str) = |mark| {
        let dir = Path::new(mark).parent().unwrap().display().to_string();
        let found = kill_all_of(&dir);
        assert_eq!(found.len(), 1, "without the keeper: {found:?}");
        assert_eq!(found[0].1, "sleep 601");
    };
    for end in [by_mark, by_directory] {
        let start = |program: &str, arguments: &[&str]| {
            let mut command = std::process::Command::new(program);
            let command = command.args(arguments).env(MARK, &mark);
            command
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut keeper = start("python3", &["-c", KEEPER]);
        let mut child = String::new();
        let mut lines = std::io::BufReader::new(keeper.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut lines, &mut child).unwrap();
        let mut program = start("sleep", &["601"]);
        // The kernel shows the environment of a program a moment after its start.
        let environ = format!("/proc/{}/environ", program.id());
        for _ in 0..500 {
            if tare_files::read(Path::new(&environ), 1 << 20).is_ok_and(|e| !e.is_empty()) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        end(&mark);
        let has_ended = [program.try_wait(), keeper.try_wait()];
        let _ = (program.kill(), keeper.kill());
        let child = child.trim().parse().unwrap();
        let is_left = tare_run::proc::tree::is_living(child);
        sockets::kill(child);
        let status = keeper.wait().unwrap();
        let _ = program.wait();
        assert!(!is_left, "the keeper was killed before its child");
        assert!(status.success(), "{status}");
        assert!(matches!(has_ended, [_, Ok(Some(_))]), "{has_ended:?}");
    }
}

#[test]
fn a_program_in_a_network_of_its_own_may_listen_on_all_addresses() {
    let mut graph = graph();
    let command = graph.services[0].command.as_mut().unwrap();
    command.network = ProgramNetwork::Own;
    command.port = Some(8080);
    graph.validate().unwrap();
    let workload = Workload {
        graph,
        instances: 2,
        mix: "default".to_owned(),
    };
    let topology = Topology::new(&workload, 70).unwrap();
    let pod = &topology.pods[1];
    assert_eq!(pod.application().to_string(), "10.70.0.2:8080");
    assert_eq!(
        topology.pods[2].application().to_string(),
        "10.70.0.3:15080"
    );
    let program = Program::of(&topology, pod, &workload.graph, Sides(None), Path::new("/"));
    let program = program.unwrap().unwrap();
    assert_eq!(program.run[1], "http://10.70.0.3:15080");
    let misplaced = |listening: &[&str]| {
        let listening: Vec<SocketAddr> = listening.iter().map(|a| a.parse().unwrap()).collect();
        program.misplaced_among(&listening)
    };
    for fine in [
        &["0.0.0.0:8080"][..],
        &["[::]:8080", "127.0.0.1:9090"],
        &["10.70.0.2:8080"],
    ] {
        assert_eq!(misplaced(fine), None, "{fine:?}");
    }
    let expected = "it listens on 127.0.0.1:8080; expected 10.70.0.2:8080, which is {address}, or all addresses";
    assert_eq!(misplaced(&["127.0.0.1:8080"]).unwrap(), expected);
}

#[test]
fn places_name_the_next_sidecar_or_the_called_service_itself() {
    let workload = Workload {
        graph: graph(),
        instances: 2,
        mix: "default".to_owned(),
    };
    let topology = Topology::new(&workload, 70).unwrap();
    let run = |sides| {
        let pod = &topology.pods[1];
        let scratch = Path::new("/scratch");
        let program = Program::of(&topology, pod, &workload.graph, sides, scratch);
        program.unwrap().unwrap().run[1].clone()
    };
    let both = Sides(Some(tare_plan::mesh::Placement::Both));
    assert_eq!(run(both), "http://127.70.0.2:15100");
    assert_eq!(run(Sides(None)), "http://127.70.0.3:15080");
    let none = Program::of(
        &topology,
        &topology.pods[2],
        &workload.graph,
        both,
        Path::new("/"),
    );
    assert!(none.unwrap().is_none());
}

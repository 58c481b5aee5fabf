//! Compares tare with other clients over HTTP/2, gRPC and TLS, on `tare serve-echo`, and a load
//! of a thousand endpoints with a load of one.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::contest::{Contender, Ratio, contest};
use crate::server::Server;
use crate::tools::{PerRequest, Scratch, Tools, client, json, number_after, pinned};

const CONNECTIONS: &str = "10";
const STREAMS: &str = "32";
const CALL: &str = "tare.echo.v1.Echo/Unary";
const MESSAGE: &str = r#"{"name":"x"}"#;

/// `tare serve-echo` on core 0; stopped when dropped.
struct Echo {
    child: Child,
    plain: String,
    tls: String,
}

impl Echo {
    fn start(tools: &Tools) -> Self {
        let mut child = pinned(0, &tools.tare)
            .args([
                "serve-echo",
                "--listen",
                "127.0.0.1:0",
                "--tls",
                "127.0.0.1:0",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = |scheme: &str| {
            let line = lines.next().unwrap().unwrap();
            let (_, rest) = line.split_once(scheme).unwrap();
            rest.split(' ').next().unwrap().to_owned()
        };
        let (plain, tls) = (address("http://"), address("https://"));
        Self { child, plain, tls }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // SIGTERM instead of SIGKILL, so that the server removes its certificates.
        let pid = Pid::from_raw(self.child.id() as i32);
        let _ = kill(pid, Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

fn tare(tools: &Tools, seconds: u32, args: &[&str]) -> PerRequest {
    let duration = format!("{seconds}s");
    let mut all = vec!["load", "--max", "--duration", &duration, "--warmup", "0s"];
    all.extend(["--output", "json"]);
    all.extend(args);
    let used = client(&tools.tare, &all);
    let ok = json(&used.text)["counts"]["ok"].as_f64().unwrap();
    assert!(ok > 0.0, "no response with {all:?}: {}", used.text);
    used.per(ok)
}

fn h2load(program: &Path, seconds: u32, args: &[&str]) -> PerRequest {
    let seconds = seconds.to_string();
    let mut all = vec!["-D", &seconds, "-c", CONNECTIONS, "-m", STREAMS, "-t1"];
    all.extend(args);
    let used = client(program, &all);
    let succeeded = used.text.split(',').find(|p| p.contains(" succeeded"));
    used.per(number_after(succeeded.unwrap(), ""))
}

fn ghz(program: &Path, seconds: u32, address: &str) -> PerRequest {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/proto/tare_echo.proto");
    let (proto, duration) = (proto.display().to_string(), format!("{seconds}s"));
    let mut args = vec![
        "--insecure",
        "--proto",
        &proto,
        "--call",
        CALL,
        "-d",
        MESSAGE,
    ];
    // The same number of concurrent calls and connections.
    args.extend(["-c", "320", "--connections", CONNECTIONS, "-z", &duration]);
    args.extend(["-O", "json", address]);
    let used = client(program, &args);
    let result = json(&used.text);
    used.per(result["statusCodeDistribution"]["OK"].as_f64().unwrap())
}

pub fn http2(tools: &Tools, rounds: usize, seconds: u32) {
    let echo = Echo::start(tools);
    let url = format!("http://{}/", echo.plain);
    let mut contenders = vec![Contender {
        name: "tare h2",
        run: Box::new(|| {
            let args = [
                &url,
                "--http2",
                "--connections",
                CONNECTIONS,
                "--streams",
                STREAMS,
            ];
            tare(tools, seconds, &args)
        }),
    }];
    if let Some(program) = &tools.h2load {
        contenders.push(Contender {
            name: "h2load",
            run: Box::new(|| h2load(program, seconds, &[&url])),
        });
    }
    contest(
        &format!("HTTP/2: {CONNECTIONS} connections of {STREAMS} streams, saturating."),
        rounds,
        &mut contenders,
        &[Ratio {
            of: "tare h2",
            to: "h2load",
            note: "required: at most 1.0",
        }],
    );
}

pub fn grpc(tools: &Tools, rounds: usize, seconds: u32) {
    let echo = Echo::start(tools);
    let (url, call) = (
        format!("grpc://{}/{CALL}", echo.plain),
        format!("http://{}/{CALL}", echo.plain),
    );
    // Length prefix: not compressed, 3 bytes. Message: field 1 is "x".
    let body = Scratch::new("message", &[0, 0, 0, 0, 3, 0x0a, 1, b'x']);
    let mut contenders = vec![Contender {
        name: "tare grpc",
        run: Box::new(|| {
            let args = [&url, "--data", MESSAGE, "--connections", CONNECTIONS];
            tare(
                tools,
                seconds,
                &[&args[..], &["--streams", STREAMS]].concat(),
            )
        }),
    }];
    if let Some(program) = &tools.h2load {
        contenders.push(Contender {
            name: "h2load grpc",
            run: Box::new(|| {
                let args = ["-d", body.path(), "-H", "content-type: application/grpc"];
                h2load(
                    program,
                    seconds,
                    &[&args[..], &["-H", "te: trailers", &call]].concat(),
                )
            }),
        });
    }
    if let Some(program) = &tools.ghz {
        contenders.push(Contender {
            name: "ghz",
            run: Box::new(|| ghz(program, seconds, &echo.plain)),
        });
    }
    contest(
        &format!("gRPC unary: {CONNECTIONS} connections of {STREAMS} calls at once, saturating."),
        rounds,
        &mut contenders,
        &[
            Ratio {
                of: "tare grpc",
                to: "h2load grpc",
                note: "required: at most 1.1",
            },
            Ratio {
                of: "ghz",
                to: "tare grpc",
                note: "required: at least 10",
            },
        ],
    );
}

pub fn tls(tools: &Tools, rounds: usize, seconds: u32) {
    let echo = Echo::start(tools);
    let url = format!("https://{}/", echo.tls);
    let mut contenders = vec![Contender {
        name: "tare https",
        run: Box::new(|| tare(tools, seconds, &[&url, "--insecure", "--connections", "50"])),
    }];
    if let Some(program) = &tools.wrk {
        contenders.push(Contender {
            name: "wrk https",
            run: Box::new(|| crate::cost::wrk(program, &url, seconds)),
        });
    }
    contest(
        "TLS: HTTP/1.1 over 50 connections, saturating.",
        rounds,
        &mut contenders,
        &[Ratio {
            of: "tare https",
            to: "wrk https",
            note: "required: at most 1.1",
        }],
    );
}

pub fn endpoints(tools: &Tools, rounds: usize, seconds: u32) {
    let server = Server::start(tools, "0s");
    let url = server.url();
    let lines: String = (0..1000)
        .map(|i| format!("{{\"name\":\"{i}\",\"url\":\"{url}{i}\"}}\n"))
        .collect();
    let file = Scratch::new("endpoints", lines.as_bytes());
    let mut contenders = [
        Contender {
            name: "one endpoint",
            run: Box::new(|| tare(tools, seconds, &[&url])),
        },
        Contender {
            name: "1,000 endpoints",
            run: Box::new(|| tare(tools, seconds, &["--endpoints", file.path()])),
        },
    ];
    contest(
        "Endpoints: 50 connections, saturating.",
        rounds,
        &mut contenders,
        &[Ratio {
            of: "1,000 endpoints",
            to: "one endpoint",
            note: "required: at most 1.05",
        }],
    );
}

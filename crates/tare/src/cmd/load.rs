//! `tare load`: the load engine as a command, and as the worker of a trial.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::ValueEnum;
use tare_analysis::formats::About;
use tare_load::RecordWriter;
use tare_model::load::LoadSpec;
use tare_model::record::{LoadRecord, Progress};
use tare_model::units::{parse_duration, parse_rate};
use tare_model::verdict::Grade;

use super::exit;
use super::save::{Format, Saves, Target};
use super::tls::TlsArgs;

mod grpc;
mod messages;
mod proxy_config;
mod spec;
pub(super) mod text;

/// Put an open-loop load on URLs: constant rate, latency from the intended instant, every request accounted for.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to request: http://host[:port]/path, https://, or grpc://host[:port]/package.Service/Method and grpcs://. Several share the rate evenly.
    #[arg(required_unless_present_any = ["spec", "endpoints"])]
    urls: Vec<String>,
    /// Requests per second, as `2000` or `2krps`. A ramp, steps and a trace have rates of their own.
    #[arg(long, value_parser = parse_rate)]
    rate: Option<f64>,
    /// Send as fast as the connections are answered (closed loop): finds the highest throughput, says nothing about latency at a rate.
    #[arg(long, conflicts_with_all = ["rate", "arrivals"])]
    max: bool,
    /// Length of the measurement [default: that of the steps or the trace, else 10s].
    #[arg(long, value_parser = parse_duration)]
    duration: Option<u64>,
    /// The same load before it, outside the books.
    #[arg(long, value_parser = parse_duration, default_value = "0s")]
    warmup: u64,
    /// A request not answered so long after its intended instant is a timeout.
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    timeout: u64,
    /// How long requests may still be answered after the measurement [default: the timeout].
    #[arg(long, value_parser = parse_duration)]
    drain: Option<u64>,
    /// Connections in all.
    #[arg(long, short, default_value_t = 50)]
    connections: u32,
    /// Speak HTTP/2; with http:// by prior knowledge.
    #[arg(long)]
    http2: bool,
    /// Most requests at once on each connection, with HTTP/2 and gRPC; the server may allow fewer.
    #[arg(long, default_value_t = 1)]
    streams: u32,
    /// Event-loop threads.
    #[arg(long, short, default_value_t = 1)]
    threads: u32,
    /// How the intended instants lie in time.
    ///
    /// `constant`: evenly spaced. `poisson`: exponential gaps. `bursts:SLOTS`: so many at once, as
    /// often as the rate needs. `ramp:RATE..RATE`: from one rate to another over the measurement.
    /// `steps:RATE:DURATION,...`: one rate after another, as `steps:100:10s,400:5s`. `trace:FILE`:
    /// recorded instants, one a line in seconds from any origin. `wrk2`: compatibility mode, all
    /// connections in phase, each at its share of the rate, as wrk2 plans.
    #[arg(long, default_value = "constant")]
    arrivals: String,
    /// How to wait for the next one: `sleep` in the kernel until shortly before, `spin` on a core of its own.
    #[arg(long, value_enum, default_value_t = PaceArg::Sleep)]
    pace: PaceArg,
    /// Close a connection after so many requests. The next one is opened when a request is due, whose latency then holds the time to open it; with 1 every request has a new connection.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_connection: Option<u32>,
    /// Keep each event-loop thread on a core of its own: the first ones that this process may use.
    #[arg(long)]
    pin: bool,
    /// Keep all cores of this machine from sleeping meanwhile (root): without it, latencies at low rates hold the time that a core takes to wake, on virtual machines up to milliseconds.
    #[arg(long)]
    awake: bool,
    /// Share of requests that the kernel times too, which shows the generator's own error: `1%` or `off`.
    #[arg(long, value_name = "SHARE", value_parser = spec::share, default_value = "1%")]
    kernel_timestamps: u32,
    /// Seed of arrivals and of the order of endpoints.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Request method.
    #[arg(long, short = 'X', default_value = "GET")]
    method: String,
    /// Request header, `name: value`; may be repeated.
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Request body.
    #[arg(long, conflicts_with = "body_file")]
    body: Option<String>,
    /// File with the request body.
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    #[command(flatten)]
    grpc: grpc::GrpcArgs,
    #[command(flatten)]
    messages: messages::Args,
    /// File with endpoints, one JSON object a line: url, and optionally name, method, headers, body_base64, connect, weight, protocol, messages_base64, grpc. What a line lacks of method, headers, body and messages is as the flags say.
    #[arg(long, value_name = "FILE")]
    endpoints: Option<PathBuf>,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Write latencies by second as an HdrHistogram interval log.
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Write the result in another format: hlog, hgrm, fortio, csv, openmetrics or json; may be repeated.
    #[arg(long, value_name = "FORMAT=FILE")]
    save: Vec<Target>,
    /// A line each second on standard error, terminal or not.
    #[arg(long)]
    progress: bool,
    /// Worker mode: read a load specification (JSON) from a file, or `-` for standard input, and write records to standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "urls", "rate", "max", "duration", "warmup", "timeout", "drain", "connections", "threads", "arrivals", "pace",
        "seed", "method", "header", "body", "body_file", "endpoints", "output", "hlog", "save", "progress", "http2", "streams",
        "data_raw", "metadata", "streaming", "deadline", "data", "data_file", "proto", "import_path", "descriptor_set",
        "requests_per_connection", "pin", "awake", "kernel_timestamps", "ca", "cert", "key", "server_name", "tls_min", "tls_max",
        "tls_no_resumption", "insecure",
    ])]
    spec: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
    /// A full handshake for every connection: sessions are not resumed.
    #[arg(long, help_heading = "TLS, for https:// and grpcs://")]
    tls_no_resumption: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PaceArg {
    Sleep,
    Spin,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A page for people.
    Text,
    /// The whole result.
    Json,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match &args.spec {
        Some(path) => work(path),
        None => measure(&args),
    }
}

/// Set by SIGINT and SIGTERM; a second signal ends the process at once.
pub(super) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            exit::INTERRUPTED.into(),
            Arc::clone(&stop),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// A worker is there so long after the window: the last sample of its CPU and memory is due
/// at the window's end, and comes late on a busy machine.
const OUTLIVES_WINDOW: Duration = Duration::from_millis(200);

/// Worker mode. The records say how it went; the exit code only whether they are
/// complete.
fn work(path: &std::path::Path) -> anyhow::Result<ExitCode> {
    if std::env::var_os("TARE_DIE_WITH_PARENT").is_some_and(|v| v == "1") {
        let kill = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(kill)?;
    }
    let stop = stop_flag()?;
    let mut json = String::new();
    if path.as_os_str() == "-" {
        io::stdin().read_to_string(&mut json)?;
    } else {
        json = std::fs::read_to_string(path)
            .with_context(|| format!("failed to read {}", path.display()))?;
    }
    let spec: LoadSpec =
        serde_json::from_str(&json).context("the specification is no load specification")?;
    let mut writer = RecordWriter::begin(io::stdout())?;
    let mut broken = None;
    let result = tare_load::run(&spec, &stop, true, &mut |record| {
        if broken.is_none()
            && let Err(e) = writer.write(&record)
        {
            // Nobody reads any more: nobody wants the rest.
            broken = Some(e);
            stop.store(true, Ordering::Relaxed);
        }
    })?;
    if let Some(error) = broken {
        return Err(error.into());
    }
    if !result.interrupted {
        for record in proxy_config::ask(&spec.proxy_config) {
            writer.write(&record)?;
        }
    }
    let end_ns = match result.interrupted {
        true => 0,
        false => result.window_start_unix_ns + result.window_ns,
    };
    writer.finish(result)?;
    let seen = UNIX_EPOCH + Duration::from_nanos(end_ns) + OUTLIVES_WINDOW;
    let wait = seen.duration_since(SystemTime::now()).unwrap_or_default();
    std::thread::sleep(wait.min(OUTLIVES_WINDOW));
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args) -> anyhow::Result<ExitCode> {
    let mut spec = spec::from_args(args)?;
    messages::fill(&mut spec, &args.messages)?;
    let mut targets = args.save.clone();
    targets.extend(args.hlog.clone().map(|path| Target {
        format: Format::Hlog,
        path,
    }));
    let mut saves = Saves::open(targets)?;
    let stop = stop_flag()?;
    let mut live = Live::new(args.progress);
    let intervals = saves.want_intervals();
    let result = tare_load::run(&spec, &stop, intervals, &mut |record| match record {
        LoadRecord::Progress(progress) => live.show(&progress),
        record => saves.take(&record),
    })?;
    live.clear();
    let mut out = io::stdout().lock();
    match args.output {
        Output::Text => out.write_all(text::page(&spec, &result).as_bytes())?,
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&result)?)?,
    }
    out.flush()?;
    saves.finish(&about(&spec), &result)?;
    Ok(match result.verdict.grade {
        _ if result.interrupted => ExitCode::from(exit::INTERRUPTED),
        Grade::Invalid => ExitCode::from(exit::INVALID),
        Grade::Valid | Grade::Suspect => ExitCode::SUCCESS,
    })
}

/// The specification of a step of a search, from the flags that both commands have.
///
/// # Errors
/// As for a load, and for flags that a search has no use for.
pub(super) fn spec_of_step(
    mut args: Args,
    rate_rps: f64,
    duration_ns: u64,
) -> anyhow::Result<LoadSpec> {
    let strange = args.rate.is_some() || args.max || args.spec.is_some();
    let strange = strange || args.hlog.is_some() || !args.save.is_empty();
    if strange {
        anyhow::bail!(
            "found --rate, --max, --spec, --hlog or --save, which a search has no use for; expected --min-rate and --max-rate"
        );
    }
    args.rate = Some(rate_rps);
    let mut spec = spec::from_args(&args)?;
    spec.duration_ns = duration_ns;
    messages::fill(&mut spec, &args.messages)?;
    Ok(spec)
}

/// Whether the result is wanted as JSON.
pub(super) fn is_json(args: &Args) -> bool {
    args.output == Output::Json
}

fn about(spec: &LoadSpec) -> About {
    let url = match spec.endpoints.as_slice() {
        [one] => one.url.clone(),
        _ => String::new(),
    };
    About {
        label: match url.as_str() {
            "" => format!("tare load, {} endpoints", spec.endpoints.len()),
            url => format!("tare load {url}"),
        },
        url,
        connections: spec.connections,
    }
}

/// The line that lives while the load runs, and the warning that must not wait for its
/// end.
struct Live {
    rewriting: bool,
    shown: bool,
    warned: bool,
}

impl Live {
    fn new(lines: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            rewriting: terminal && !lines,
            shown: terminal || lines,
            warned: false,
        }
    }

    fn show(&mut self, progress: &Progress) {
        if let Some(warning) = text::cannot_keep_up(progress).filter(|_| !self.warned) {
            self.warned = true;
            self.clear();
            writeln!(io::stderr().lock(), "{warning}").ok();
        }
        if !self.shown {
            return;
        }
        let line = text::progress(progress);
        // A closed standard error is no reason to stop measuring.
        let mut err = io::stderr().lock();
        if self.rewriting {
            write!(err, "\r\x1b[K{line}").ok();
        } else {
            writeln!(err, "{line}").ok();
        }
        err.flush().ok();
    }

    fn clear(&self) {
        if self.rewriting && self.shown {
            write!(io::stderr().lock(), "\r\x1b[K").ok();
        }
    }
}

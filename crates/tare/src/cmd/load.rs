//! `tare load`: the load engine as a command and as the generator of a trial.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tare_analysis::formats::About;
use tare_plan::load::{LoadSpec, Pace, masked};
use tare_plan::units::{parse_duration, parse_rate};
use tare_records::record::{Hello, LoadRecord, Progress};
use tare_records::writer::RecordWriter;

use crate::cmd::exit;
use crate::cmd::input::{Headers, one_of, read_input};
use crate::cmd::load::save::{Format, Saves, Target};
use crate::cmd::load::tls::TlsArgs;
use crate::cmd::output::{self, Output, code_of};
use crate::terminal;
use connect_to::ConnectTo;

mod connect_to;
pub(super) mod grpc;
mod grpc_flags;
pub(super) mod merge;
mod messages;
mod proxy_config;
pub(super) mod save;
pub(super) mod search;
pub(super) mod serve_echo;
mod spec;
pub(super) mod text;
pub(super) mod tls;

/// Send an open-loop load to URLs and report latency.
///
/// Requests follow a schedule and never wait for earlier responses. Latency counts from the
/// scheduled instant, so it is free of coordinated omission. Every request is accounted for.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// URLs to request: http://host[:port]/path or https://, or for gRPC grpc://host[:port]/package.Service/Method or grpcs://. Several URLs share the rate evenly.
    #[arg(required_unless_present_any = ["spec", "endpoints"])]
    urls: Vec<String>,
    /// Requests per second over all connections, for example `2000` or `2krps`. Not for a ramp, steps or a trace, which define their own rates.
    #[arg(long, value_parser = parse_rate, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Closed loop: send the next request as soon as a response arrives. Measures the highest throughput; its latencies are not those at a given rate.
    #[arg(long, conflicts_with_all = ["rate", "arrivals"])]
    max: bool,
    /// Duration of the measurement [default: that of the steps or the trace, otherwise 10s].
    #[arg(long, value_parser = parse_duration)]
    duration: Option<u64>,
    /// Warm-up with the same load before the measurement, excluded from results.
    #[arg(long, value_parser = parse_duration, default_value = "0s")]
    warmup: u64,
    /// Time from the scheduled instant after which a request without a complete response counts as a timeout.
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    timeout: u64,
    /// Time to wait for pending responses after the measurement [default: the timeout].
    #[arg(long, value_parser = parse_duration)]
    drain: Option<u64>,
    /// Total number of connections.
    #[arg(long, short, default_value_t = 50)]
    connections: u32,
    /// Connect to ADDR instead of the HOST and PORT of a URL, whose authority stays in the request; may be repeated.
    ///
    /// HOST and PORT are those of the URLs that it applies to; an empty one means any. ADDR is a host or an address with
    /// an optional port, by default that of the URL: `shop:80:10.0.0.7`, `shop:80:10.0.0.7:15001`, `::[::1]:8080`.
    #[arg(long, value_name = "HOST:PORT:ADDR", value_parser = ConnectTo::parse)]
    connect_to: Vec<ConnectTo>,
    /// Use HTTP/2: by prior knowledge with http://, by ALPN with https://.
    #[arg(long)]
    http2: bool,
    /// Maximum number of concurrent requests per connection with HTTP/2 and gRPC; the server may allow fewer.
    #[arg(long, default_value_t = 1)]
    streams: u32,
    /// Number of event-loop threads.
    #[arg(long, short, default_value_t = 1)]
    threads: u32,
    /// Arrival process of the requests.
    ///
    /// `constant`: evenly spaced. `poisson`: exponentially distributed gaps. `bursts:N`: N requests at once, as often as
    /// the rate needs. `ramp:RATE..RATE`: from one rate to another over the measurement. `steps:RATE:DURATION,...`: one
    /// rate after another, for example `steps:100:10s,400:5s`. `trace:FILE`: recorded instants, one per line, in seconds
    /// from any origin. `wrk2`: compatibility mode; all connections in phase, each at its share of the rate.
    #[arg(long, default_value = "constant")]
    arrivals: String,
    /// How to wait for the next request: `sleep` in the kernel until shortly before it is due, or `spin` on a dedicated core.
    #[arg(long, value_parser = one_of::<Pace>(&["sleep", "spin"]), default_value = "sleep")]
    pace: Pace,
    /// Close each connection after N requests. The next connection is opened when a request is due, and the latency of that request includes the time to connect. With 1, every request uses a new connection.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_connection: Option<u32>,
    /// Pin each event-loop thread to a core: the first cores that this process may use.
    #[arg(long)]
    pin: bool,
    /// Keep all cores of this machine awake during the load (needs root). Otherwise latencies at
    /// low rates include the time that a core takes to wake up, which can be milliseconds on
    /// virtual machines.
    #[arg(long)]
    awake: bool,
    /// Share of requests that the kernel timestamps as well, to measure the error of the generator: for example `1%`, or `off`.
    #[arg(long, value_name = "SHARE", value_parser = spec::share, default_value = "1%")]
    kernel_timestamps: u32,
    /// Seed of the arrival process and of the order of endpoints.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Request method.
    #[arg(long, short = 'X', default_value = "GET")]
    method: String,
    /// Request header, `name: value`; or `@FILE` with one on each line, because other users of this machine can read a command line; may be repeated.
    #[arg(long, short = 'H', value_name = "NAME: VALUE|@FILE", value_parser = Headers::parse)]
    header: Vec<Headers>,
    /// Request body.
    #[arg(long, conflicts_with = "body_file")]
    body: Option<String>,
    /// File with the request body.
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    #[command(flatten)]
    grpc: grpc_flags::GrpcArgs,
    #[command(flatten)]
    messages: messages::Args,
    /// File with endpoints, one JSON object per line: url, and optionally name, method, headers,
    /// body_base64, connect, weight, protocol, messages_base64, grpc. Method, headers, body and
    /// messages default to those on the command line.
    #[arg(long, value_name = "FILE")]
    endpoints: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
    /// Write the latencies of each second as an HdrHistogram interval log.
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Also write the result in this format: hlog, hgrm, fortio, csv, openmetrics or json; may be repeated.
    #[arg(long, value_name = "FORMAT=FILE")]
    save: Vec<Target>,
    /// Print a progress line to standard error each second, also without a terminal.
    #[arg(long)]
    progress: bool,
    /// Worker mode: read a load specification (JSON) from FILE, or from standard input with `-`, and write records to standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "urls", "rate", "max", "duration", "warmup", "timeout", "drain", "connections", "threads", "arrivals", "pace",
        "seed", "method", "header", "body", "body_file", "endpoints", "output", "hlog", "save", "progress", "http2", "streams",
        "data_raw", "metadata", "streaming", "deadline", "data", "data_file", "proto", "import_path", "descriptor_set",
        "requests_per_connection", "connect_to", "pin", "awake", "kernel_timestamps", "ca", "cert", "key", "server_name", "tls_min", "tls_max",
        "tls_no_resumption", "insecure",
    ])]
    spec: Option<PathBuf>,
    /// In worker mode: the number of this generator, from 0, of those that share the specification.
    #[arg(long, value_name = "INDEX", requires = "spec")]
    generator: Option<u32>,
    #[command(flatten)]
    tls: TlsArgs,
    /// Do not resume TLS sessions: every connection makes a full handshake.
    #[arg(long, help_heading = "TLS, for https:// and grpcs://")]
    tls_no_resumption: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match &args.spec {
        Some(path) => work(path, args.generator),
        None => measure(&args),
    }
}

/// Returns a flag that SIGINT, SIGTERM and SIGHUP set; a second signal ends the process at once. A second SIGHUP does
/// not: the kernel and the shell both send it when a terminal is closed.
pub(super) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in tare_workload::signals::stopping() {
        if signal != rustix::process::Signal::HUP.as_raw() {
            signal_hook::flag::register_conditional_shutdown(
                signal,
                exit::INTERRUPTED.into(),
                Arc::clone(&stop),
            )?;
        }
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// How long a worker keeps running after the window: the agent takes its last sample at the end of
/// the window, and late on a busy machine.
const LINGER: Duration = Duration::from_millis(200);

/// Worker mode. The records hold the result; the exit code shows only whether they are complete.
fn work(path: &std::path::Path, generator: Option<u32>) -> anyhow::Result<ExitCode> {
    if std::env::var_os("TARE_DIE_WITH_PARENT").is_some_and(|v| v == "1") {
        let kill = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(kill)?;
    }
    let stop = stop_flag()?;
    let json = read_input(path)?;
    let mut spec: LoadSpec = serde_json::from_slice(&json).context("invalid load specification")?;
    if let Some(index) = generator {
        let count = spec.shard.count;
        let of_one = spec.of_generator(index);
        spec = of_one.with_context(|| {
            format!("--generator {index}: the specification is of {count} generators, whose numbers begin with 0")
        })?;
    }
    let mut writer = RecordWriter::new(terminal::raw_out());
    let hello = Hello::new("load", std::process::id());
    writer.write(&LoadRecord::Hello(hello))?;
    let mut broken = None;
    let result = tare_load::run(&spec, &stop, true, &mut |record| {
        if broken.is_none()
            && let Err(e) = writer.write(&record)
        {
            // The reader has closed the pipe, so the rest of the measurement is useless.
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
    writer.finish(|checksum| LoadRecord::Final {
        checksum,
        result: Box::new(result),
    })?;
    let until = UNIX_EPOCH + Duration::from_nanos(end_ns) + LINGER;
    let wait = until.duration_since(SystemTime::now()).unwrap_or_default();
    std::thread::sleep(wait.min(LINGER));
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
    // Before the text, which cannot be printed on a closed terminal.
    let saved = saves.finish(&about(&spec), &result);
    args.output.print(&result, || text::page(&spec, &result))?;
    saved?;
    Ok(ExitCode::from(match result.interrupted {
        true => exit::INTERRUPTED,
        false => code_of(result.verdict.grade),
    }))
}

/// Returns the specification of a step of a search, from the flags that both commands share.
///
/// # Errors
/// Those of a load, and flags that do not apply to a search.
pub(super) fn spec_of_step(
    mut args: Args,
    rate_rps: f64,
    duration_ns: u64,
) -> anyhow::Result<LoadSpec> {
    let inapplicable = args.rate.is_some() || args.max || args.spec.is_some();
    let inapplicable = inapplicable || args.hlog.is_some() || !args.save.is_empty();
    if inapplicable {
        anyhow::bail!(
            "--rate, --max, --spec, --hlog and --save do not apply to a search; use --min-rate and --max-rate"
        );
    }
    let own_rates = ["ramp:", "steps:", "trace:"];
    if own_rates.iter().any(|own| args.arrivals.starts_with(own)) {
        anyhow::bail!(
            "--arrivals {} defines its own rate, but a search chooses the rates: use constant, poisson, bursts:N or wrk2",
            args.arrivals
        );
    }
    args.rate = Some(rate_rps);
    let mut spec = spec::from_args(&args)?;
    spec.duration_ns = duration_ns;
    messages::fill(&mut spec, &args.messages)?;
    Ok(spec)
}

fn about(spec: &LoadSpec) -> About {
    let url = match spec.endpoints.as_slice() {
        [one] => masked(&one.url),
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

/// The progress line during the load, and the warning that is printed before the load ends.
struct Live {
    rewriting: bool,
    shown: bool,
    warned: bool,
}

impl Live {
    fn new(lines: bool) -> Self {
        let terminal = terminal::err_is_terminal();
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
            output::say(warning);
        }
        if !self.shown {
            return;
        }
        let line = text::progress(progress);
        match self.rewriting {
            true => terminal::rewrite_line(&line),
            false => output::say(line),
        }
    }

    fn clear(&self) {
        if self.rewriting && self.shown {
            terminal::rewrite_line("");
        }
    }
}

//! `tare observe`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tare_cluster::observe::{Observing, Options, observe, observe_role_yaml};
use tare_plan::mesh::{MeshParts, PodSelector, known_parts};
use tare_plan::units::{format_duration_ns, parse_duration};
use tare_report::render_observation;

use crate::cmd::output::{self, Output};

/// Read what the mesh of a cluster uses under the cluster's own traffic
///
/// Prints CPU and memory, by workload, of the sidecars, gateways, node proxies, waypoints and the control plane, and of the
/// containers beside the sidecars. The values come from the kubelets. `tare observe --rbac`, with the same options, prints
/// the role that is sufficient.
/// Applies no load, and deploys nothing without --requests. Ctrl-C ends the observation early and prints the result until then.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: crate::cmd::cluster::Flags,
    /// Observe only the sidecars in this namespace; repeat the option for several namespaces [default: all].
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Vec<String>,
    /// How long to observe: 30s or more.
    #[arg(long, value_parser = parse_duration, default_value = "5m")]
    duration: u64,
    /// Name of the sidecar container [default: those of Istio, Linkerd and Kuma]. Not with --requests.
    #[arg(long, value_name = "CONTAINER")]
    sidecar: Option<String>,
    /// Pods of the control plane by label, such as `mesh-system/app=controller` [default: those of Istio, Linkerd and Kuma].
    #[arg(long, value_name = "NAMESPACE/SELECTOR", value_parser = selector)]
    control_plane: Vec<PodSelector>,
    /// Also print requests per second and CPU per request, from the sidecars' own counters. To read them, tare creates one
    /// pod at a time, with the image of --cluster, in a namespace of its own, and removes both.
    #[arg(long, conflicts_with = "sidecar")]
    requests: bool,
    /// Print the role that this command needs as YAML for `kubectl apply -f -`, without observing.
    #[arg(long)]
    rbac: bool,
    /// Format of the result.
    #[arg(long, default_value = "text")]
    output: Output,
}

/// Shortest observation: kubelets read their values every 10 to 15 s.
const DURATION_MIN: Duration = Duration::from_secs(30);

fn selector(text: &str) -> Result<PodSelector, String> {
    let parts = text.split_once('/');
    let (namespace, selector) = parts
        .filter(|(namespace, selector)| !namespace.is_empty() && !selector.is_empty())
        .ok_or("expected NAMESPACE/SELECTOR, such as istio-system/app=istiod")?;
    Ok(PodSelector {
        namespace: namespace.to_owned(),
        selector: selector.to_owned(),
    })
}

/// Where the parts of the meshes may run: as in the meshes that tare knows, or as the options state.
fn parts(args: &Args) -> Vec<MeshParts> {
    let mut parts = known_parts();
    if args.sidecar.is_some() {
        for known in &mut parts {
            (known.sidecar, known.requests) = (None, None);
        }
    }
    if !args.control_plane.is_empty() {
        parts
            .iter_mut()
            .for_each(|known| known.control_plane.clear());
    }
    parts.push(MeshParts {
        sidecar: args.sidecar.clone(),
        control_plane: args.control_plane.clone(),
        ..MeshParts::default()
    });
    parts
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let clusters = args.cluster.settings()?;
    if args.rbac {
        output::print(observe_role_yaml(&clusters[0], args.requests))?;
        return Ok(ExitCode::SUCCESS);
    }
    let [settings] = clusters.as_slice() else {
        bail!("found several contexts, expected one: observe the clusters one after the other");
    };
    let options = Options {
        parts: parts(&args),
        namespaces: args.namespace.clone(),
        duration: Duration::from_nanos(args.duration),
        requests: args.requests,
    };
    if options.duration < DURATION_MIN {
        return Err(anyhow!(
            "found --duration {:?}, expected 30s or more: kubelets read their values every 10 to 15 s",
            options.duration
        ));
    }
    let stop = crate::cmd::run::stop_on_signal("Ending the observation")?;
    let bar = bar(options.duration);
    let mut is_started = false;
    let mut progress = |now: Observing| {
        if !is_started && bar.is_hidden() {
            let (containers, nodes) = (now.containers, now.nodes);
            let duration = format_duration_ns(args.duration);
            output::say(format_args!(
                "observing {containers} containers on {nodes} nodes for {duration}"
            ));
        }
        is_started = true;
        bar.set_position(now.elapsed.as_secs());
        bar.set_message(format!(
            "{} containers on {} nodes",
            now.containers, now.nodes
        ));
    };
    let observing = observe(settings, &options, stop.asked.clone(), &mut progress);
    let observed = crate::cmd::runtime()?.block_on(observing);
    bar.finish_and_clear();
    stop.children_have_ended();
    let observed = observed?;
    args.output
        .print_styled(&observed, |colour| render_observation(&observed, colour))?;
    Ok(ExitCode::SUCCESS)
}

/// A progress bar on a terminal; elsewhere a hidden one.
fn bar(duration: Duration) -> ProgressBar {
    if !crate::terminal::err_is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("observing {bar:30} {pos} of {len} s, {msg}");
    let bar = ProgressBar::new(duration.as_secs());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

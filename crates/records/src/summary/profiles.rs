//! Where the CPU time of a request is spent, from the profile trials of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::worker::Plane;

/// The profiles of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profiles {
    /// Each mesh under each load, in the order of the profile trials.
    pub meshes: Vec<MeshProfile>,
    /// Pairs of meshes under the same load.
    pub differences: Vec<ProfileDifference>,
    /// What limits the profiles, as fragments without full stops.
    pub limits: Vec<String>,
}

/// The profile of a mesh under a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeshProfile {
    /// Mesh name.
    pub mesh: String,
    /// Load name.
    pub load: String,
    /// Name of the trial's directory, in `profiles/trials`.
    pub trial: String,
    /// Requests of the load in the window that were answered.
    pub requests: u64,
    /// Samples of all planes.
    pub samples: u64,
    /// CPU time that a sample stands for, in nanoseconds.
    pub period_ns: u64,
    /// Samples that were lost.
    pub lost: u64,
    /// Each plane with samples.
    pub planes: Vec<PlaneProfile>,
    /// pprof files that the control plane served, CPU and heap: paths in the run directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub served: Vec<String>,
}

/// The profile of one plane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaneProfile {
    /// The plane.
    pub plane: Plane,
    /// CPU time per request of the load, in nanoseconds.
    pub ns_per_request: f64,
    /// Its parts, in the order of [`CodeGroup`].
    pub groups: Vec<GroupTime>,
    /// Flame graph: path of an SVG file in the run directory.
    pub graph: String,
    /// The same stacks for `go tool pprof`: path in the run directory.
    pub pprof: String,
}

/// CPU time in a group of functions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupTime {
    /// The group.
    pub group: CodeGroup,
    /// CPU time per request of the load, in nanoseconds.
    pub ns_per_request: f64,
}

/// What the code that ran belongs to.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CodeGroup {
    /// User space: the file name of a program or library.
    User(String),
    /// Kernel: TCP, IP and sockets.
    Tcp,
    /// Kernel: the loopback or veth device and its receive queue.
    Device,
    /// Kernel: epoll.
    Epoll,
    /// Kernel: copies between user space and kernel.
    Copying,
    /// Kernel: switching, waking and waiting of threads.
    Scheduling,
    /// Kernel: encryption.
    Crypto,
    /// Kernel: everything else, and functions without a name.
    OtherKernel,
}

impl CodeGroup {
    /// The words in tables.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::User(module) => format!("user: {module}"),
            Self::Tcp => "kernel: TCP/IP, sockets".to_owned(),
            Self::Device => "kernel: loopback, veth".to_owned(),
            Self::Epoll => "kernel: epoll".to_owned(),
            Self::Copying => "kernel: copying".to_owned(),
            Self::Scheduling => "kernel: scheduling".to_owned(),
            Self::Crypto => "kernel: encryption".to_owned(),
            Self::OtherKernel => "kernel: other".to_owned(),
        }
    }
}

/// What a mesh changes over another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileDifference {
    /// Load name.
    pub load: String,
    /// Name of the mesh.
    pub mesh: String,
    /// Name of the mesh that it is compared with.
    pub reference: String,
    /// Difference flame graph: path of an SVG file in the run directory.
    pub graph: String,
    /// Its stacks as text: path in the run directory.
    pub folded: String,
    /// The functions whose own CPU time changed most, the largest change first.
    pub functions: Vec<FunctionChange>,
}

/// The own CPU time of a function, without the functions that it calls, with two meshes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionChange {
    /// The plane.
    pub plane: Plane,
    /// The function, as in the flame graphs.
    pub function: String,
    /// Nanoseconds per request with the reference.
    pub reference_ns: f64,
    /// Nanoseconds per request with the mesh.
    pub mesh_ns: f64,
}

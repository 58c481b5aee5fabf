//! Names of processes: `emojivoto-0/web` is the service `web` of instance 0, `emojivoto-0/web.1` its second replica, and
//! `emojivoto-0/web/sidecar` the proxy beside it.

use crate::trial::ProcessUse;
use crate::worker::Plane;

const SIDECAR: &str = "/sidecar";

/// The name of the proxy beside a pod.
#[must_use]
pub fn sidecar_of(pod: &str) -> String {
    format!("{pod}{SIDECAR}")
}

/// What a process is to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfService<'a> {
    /// The service, in whichever instance and replica.
    pub service: &'a str,
    /// Whether it is the proxy beside the service, and not the service itself.
    pub is_sidecar: bool,
}

impl ProcessUse {
    /// The service that it belongs to; `None` of other processes, such as those of a control plane.
    #[must_use]
    pub fn of_service(&self) -> Option<OfService<'_>> {
        let (pod, is_sidecar) = match self.name.strip_suffix(SIDECAR) {
            Some(pod) => (pod, true),
            None => (self.name.as_str(), false),
        };
        let plane = match is_sidecar {
            true => Plane::DataPlane,
            false => Plane::Application,
        };
        let name = pod.rsplit('/').next()?;
        let service = name.split('.').next()?;
        (self.plane == plane).then_some(OfService {
            service,
            is_sidecar,
        })
    }
}

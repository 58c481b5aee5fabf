//! Equal stacks of several processes as one.

use std::collections::BTreeMap;

use tare_records::stacks::{Frame, ProcessStacks};

/// The stacks of a plane, each once.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    /// From the outermost function to the one that ran, with the number of samples.
    pub stacks: BTreeMap<Vec<Frame>, u64>,
    /// CPU time that a sample stands for, in nanoseconds.
    pub period_ns: u64,
    /// The same, per request of the load.
    pub weight_ns: f64,
}

impl Folded {
    /// Adds the stacks of processes. Indices of frames that do not exist are left out.
    pub(super) fn new<'a>(
        processes: impl Iterator<Item = &'a ProcessStacks>,
        period_ns: u64,
        weight_ns: f64,
    ) -> Self {
        let mut stacks: BTreeMap<Vec<Frame>, u64> = BTreeMap::new();
        for process in processes {
            for stack in &process.stacks {
                let frames = stack.frames.iter();
                let frames = frames.filter_map(|i| process.frames.get(*i as usize).cloned());
                let sum = stacks.entry(frames.collect()).or_default();
                *sum = sum.saturating_add(stack.samples);
            }
        }
        Self {
            stacks,
            period_ns,
            weight_ns,
        }
    }

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.stacks
            .values()
            .fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// The text of a frame in flame graphs, in the convention of their tools: `_[k]` marks the kernel, `[name]`
/// is a module whose function is unknown, and a semicolon separates frames.
#[must_use]
pub fn label(frame: &Frame) -> String {
    let text = match (&frame.function, &frame.module) {
        (Some(function), None) => format!("{function}_[k]"),
        (None, None) => "[kernel]_[k]".to_owned(),
        (Some(function), Some(_)) => function.clone(),
        (None, Some(module)) => format!("[{module}]"),
    };
    text.replace(';', ":").replace(char::is_control, "?")
}

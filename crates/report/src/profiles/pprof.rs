//! The format of `go tool pprof`: a compressed Protobuf message, `perftools.profiles.Profile`.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use tare_analysis::profile::{Folded, label};
use tare_model::stacks::Frame;

/// The fields that are written; the numbers are those of the published format.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

/// What a value counts: indices into the table of strings.
#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

/// A stack, from the function that ran outwards.
#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

/// A module.
#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// A table of strings in which each occurs once. The first one is empty, as the format requires.
struct Strings {
    indices: BTreeMap<String, i64>,
    all: Vec<String>,
}

impl Strings {
    fn index(&mut self, text: &str) -> i64 {
        if let Some(index) = self.indices.get(text) {
            return *index;
        }
        let index = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }
}

/// Encodes the stacks of a plane: samples, and CPU time in nanoseconds over the whole window.
pub(super) fn encode(stacks: &Folded) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(&profile(stacks).encode_to_vec());
    // Writing to memory does not fail.
    let finished = written.and_then(|()| encoder.finish());
    finished.unwrap_or_default()
}

fn profile(stacks: &Folded) -> Profile {
    let mut strings = Strings {
        indices: BTreeMap::from([(String::new(), 0)]),
        all: vec![String::new()],
    };
    let mut value = |kind, unit| ValueType {
        kind: strings.index(kind),
        unit: strings.index(unit),
    };
    let mut profile = Profile {
        sample_type: vec![value("samples", "count"), value("cpu", "nanoseconds")],
        period_type: Some(value("cpu", "nanoseconds")),
        period: stacks.period_ns as i64,
        ..Profile::default()
    };
    let mut modules: BTreeMap<&str, u64> = BTreeMap::new();
    let mut locations: BTreeMap<&Frame, u64> = BTreeMap::new();
    for (stack, samples) in &stacks.stacks {
        let mut sample = Sample {
            value: vec![
                *samples as i64,
                samples.saturating_mul(stacks.period_ns) as i64,
            ],
            location_id: Vec::new(),
        };
        for frame in stack.iter().rev() {
            let id = *locations.entry(frame).or_insert_with(|| {
                let module = frame.module.as_deref().unwrap_or("[kernel]");
                let mapping_id = *modules.entry(module).or_insert_with(|| {
                    let id = profile.mapping.len() as u64 + 1;
                    profile.mapping.push(Mapping {
                        id,
                        filename: strings.index(module),
                        has_functions: true,
                    });
                    id
                });
                let id = profile.location.len() as u64 + 1;
                let name = strings.index(&label(frame));
                let system_name = name;
                profile.function.push(Function {
                    id,
                    name,
                    system_name,
                });
                let line = vec![Line { function_id: id }];
                profile.location.push(Location {
                    id,
                    mapping_id,
                    line,
                });
                id
            });
            sample.location_id.push(id);
        }
        profile.sample.push(sample);
    }
    profile.string_table = strings.all;
    profile
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn frame(function: Option<&str>, module: Option<&str>) -> Frame {
        Frame {
            function: function.map(str::to_owned),
            module: module.map(str::to_owned),
        }
    }

    #[test]
    fn stacks_are_read_back_from_the_function_that_ran_outwards() {
        let main = frame(Some("main"), Some("proxy"));
        let stacks = Folded {
            stacks: BTreeMap::from([
                (vec![main.clone(), frame(Some("tcp_ack"), None)], 3),
                (vec![main, frame(None, Some("libc.so.6"))], 2),
            ]),
            period_ns: 1_000,
            weight_ns: 1.0,
        };
        let mut bytes = Vec::new();
        let encoded = encode(&stacks);
        let mut decoder = flate2::read::GzDecoder::new(&encoded[..]);
        decoder.read_to_end(&mut bytes).unwrap();
        let profile = Profile::decode(&bytes[..]).unwrap();
        let text = |index: i64| profile.string_table[index as usize].as_str();
        let types: Vec<_> = profile
            .sample_type
            .iter()
            .map(|t| (text(t.kind), text(t.unit)))
            .collect();
        assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
        let mut samples: Vec<(String, i64, i64)> = Vec::new();
        for sample in &profile.sample {
            let names = sample.location_id.iter().map(|id| {
                let location = &profile.location[*id as usize - 1];
                let function = &profile.function[location.line[0].function_id as usize - 1];
                let mapping = &profile.mapping[location.mapping_id as usize - 1];
                format!("{} of {}", text(function.name), text(mapping.filename))
            });
            let stack = names.collect::<Vec<_>>().join(" < ");
            samples.push((stack, sample.value[0], sample.value[1]));
        }
        samples.sort();
        let expected = [
            (
                "[libc.so.6] of libc.so.6 < main of proxy".to_owned(),
                2,
                2_000,
            ),
            (
                "tcp_ack_[k] of [kernel] < main of proxy".to_owned(),
                3,
                3_000,
            ),
        ];
        assert_eq!(samples, expected);
        assert_eq!(profile.location.len(), 3, "each once");
    }
}

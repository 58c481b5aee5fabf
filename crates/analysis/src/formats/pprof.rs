//! The format of `go tool pprof`: a compressed Protobuf message, `perftools.profiles.Profile`. Written, and read
//! from the endpoints of Go programs.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prost::Message;
use tare_records::stacks::Frame;

use crate::profile::{Folded, label};

/// Largest profile that is read, in bytes after decompression.
const BYTES_MAX: u64 = 64 << 20;

/// The fields that are written and read; the numbers are those of the published format.
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
#[must_use]
pub fn encode(stacks: &Folded) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(&profile(stacks).encode_to_vec());
    // Writing to memory does not fail.
    let finished = written.and_then(|()| encoder.finish());
    finished.unwrap_or_default()
}

/// Decodes a profile of CPU time: stacks from the outermost function to the one that ran, each with its CPU time
/// in nanoseconds. Functions that were inlined have frames of their own.
///
/// # Errors
/// What is wrong with the bytes.
pub fn decode(bytes: &[u8]) -> Result<Vec<(Vec<Frame>, u64)>, String> {
    let mut plain = Vec::new();
    let read = GzDecoder::new(bytes)
        .take(BYTES_MAX + 1)
        .read_to_end(&mut plain);
    read.map_err(|e| format!("not compressed as a pprof profile is: {e}"))?;
    if plain.len() as u64 > BYTES_MAX {
        return Err(format!("larger than {} MiB", BYTES_MAX >> 20));
    }
    let profile = Profile::decode(&plain[..]).map_err(|e| format!("not a pprof profile: {e}"))?;
    let text = |index: i64| {
        let index = usize::try_from(index).ok();
        index
            .and_then(|i| profile.string_table.get(i))
            .map_or("", String::as_str)
    };
    let is_time = |t: &ValueType| text(t.kind) == "cpu" && text(t.unit) == "nanoseconds";
    let time = profile.sample_type.iter().position(is_time);
    let time = time.ok_or("found a profile without CPU time in nanoseconds")?;
    let functions: BTreeMap<u64, &str> = profile
        .function
        .iter()
        .map(|f| (f.id, text(f.name)))
        .collect();
    let modules: BTreeMap<u64, &str> = profile
        .mapping
        .iter()
        .map(|m| (m.id, text(m.filename)))
        .collect();
    let frames_of = |location: &Location| -> Vec<Frame> {
        let path = modules.get(&location.mapping_id).copied().unwrap_or("");
        let module = path.rsplit('/').next().filter(|name| !name.is_empty());
        let module = module.unwrap_or("program");
        let frame = |function: Option<&&str>| Frame {
            function: function.filter(|f| !f.is_empty()).map(|f| (*f).to_owned()),
            module: Some(module.to_owned()),
        };
        match location.line.as_slice() {
            [] => vec![frame(None)],
            lines => lines
                .iter()
                .map(|l| frame(functions.get(&l.function_id)))
                .collect(),
        }
    };
    let locations: BTreeMap<u64, Vec<Frame>> = profile
        .location
        .iter()
        .map(|l| (l.id, frames_of(l)))
        .collect();
    let samples = profile.sample.iter().filter_map(|sample| {
        let ns = u64::try_from(*sample.value.get(time)?)
            .ok()
            .filter(|ns| *ns > 0)?;
        let frames = sample
            .location_id
            .iter()
            .filter_map(|id| locations.get(id))
            .flatten();
        let mut stack: Vec<Frame> = frames.cloned().collect();
        stack.reverse();
        Some((stack, ns))
    });
    Ok(samples.collect())
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

    #[test]
    fn a_profile_of_a_go_program_is_read_with_inlined_functions() {
        let text = [
            "",
            "cpu",
            "nanoseconds",
            "/bin/istiod",
            "main",
            "push",
            "copy",
        ];
        let function = |id: u64, name: i64| Function {
            id,
            name,
            system_name: name,
        };
        let location = |id, functions: &[u64]| Location {
            id,
            mapping_id: 1,
            line: functions.iter().map(|f| Line { function_id: *f }).collect(),
        };
        let profile = Profile {
            sample_type: vec![ValueType::default(), ValueType { kind: 1, unit: 2 }],
            sample: vec![
                Sample {
                    location_id: vec![2, 1],
                    value: vec![3, 30_000_000],
                },
                Sample {
                    location_id: vec![9],
                    value: vec![1],
                },
            ],
            mapping: vec![Mapping {
                id: 1,
                filename: 3,
                has_functions: true,
            }],
            // `copy` was inlined into `push`.
            location: vec![location(1, &[1]), location(2, &[3, 2])],
            function: vec![function(1, 4), function(2, 5), function(3, 6)],
            string_table: text.map(str::to_owned).to_vec(),
            ..Profile::default()
        };
        let gzip = |bytes: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let stack = ["main", "push", "copy"].map(|f| frame(Some(f), Some("istiod")));
        let found = decode(&gzip(&profile.encode_to_vec()));
        assert_eq!(found, Ok(vec![(stack.to_vec(), 30_000_000)]));

        assert!(decode(b"<html>").unwrap_err().contains("not compressed"));
        assert!(
            decode(&gzip(b"\xff\xff"))
                .unwrap_err()
                .contains("not a pprof")
        );
        let heap = Profile::default().encode_to_vec();
        assert!(
            decode(&gzip(&heap))
                .unwrap_err()
                .contains("without CPU time")
        );
    }
}

use super::*;
use tare_records::stacks::{Frame, SampledStack};
use tare_records::summary::CodeGroup;

/// Frames by their text: `name` is a function of the program `proxy`, `name!` one of the kernel, `?` an
/// unknown function of the program.
fn process(name: &str, plane: Plane, stacks: &[(&str, u64)]) -> ProcessStacks {
    let mut frames = Vec::new();
    let mut index = |text: &str| {
        let (function, module) = match (text, text.strip_suffix('!')) {
            ("?", _) => (None, Some("proxy".to_owned())),
            (_, Some(kernel)) => (Some(kernel.to_owned()), None),
            _ => (Some(text.to_owned()), Some("proxy".to_owned())),
        };
        frames.push(Frame { function, module });
        frames.len() as u32 - 1
    };
    let stacks = stacks.iter().map(|(stack, samples)| SampledStack {
        frames: stack.split(' ').map(&mut index).collect(),
        samples: *samples,
    });
    let stacks = stacks.collect();
    ProcessStacks {
        name: name.to_owned(),
        plane,
        frames,
        stacks,
    }
}

fn folded(processes: &[ProcessStacks], weight_ns: f64) -> Folded {
    Folded::new(processes.iter(), 1_000_000, weight_ns)
}

#[test]
fn equal_stacks_of_several_processes_are_added() {
    let of = |name, samples| {
        process(
            name,
            Plane::DataPlane,
            &[("main work", samples), ("main", 1)],
        )
    };
    let folded = folded(&[of("web/sidecar", 3), of("emoji/sidecar", 4)], 250.0);
    let counts: Vec<(usize, u64)> = folded.stacks.iter().map(|(s, n)| (s.len(), *n)).collect();
    assert_eq!(counts, [(1, 2), (2, 7)]);
    assert_eq!(folded.samples(), 9);
}

#[test]
fn a_damaged_index_is_left_out() {
    let mut damaged = process("p", Plane::DataPlane, &[("main", 1)]);
    damaged.stacks[0].frames.push(99);
    damaged.stacks[0].samples = u64::MAX;
    let folded = folded(&[damaged.clone(), damaged], 1.0);
    assert_eq!(folded.samples(), u64::MAX);
}

#[test]
fn groups_are_per_request() {
    let stacks = [
        ("main send tcp_sendmsg!", 2),
        ("main recv tcp_recvmsg! _copy_to_iter!", 1),
        ("main", 3),
        ("?", 4),
    ];
    let folded = folded(&[process("p", Plane::DataPlane, &stacks)], 500.0);
    let found: Vec<(CodeGroup, f64)> = groups(&folded)
        .into_iter()
        .map(|g| (g.group, g.ns_per_request))
        .collect();
    let user = CodeGroup::User("proxy".to_owned());
    assert_eq!(
        found,
        [
            (user, 3500.0),
            (CodeGroup::Tcp, 1000.0),
            (CodeGroup::Copying, 500.0)
        ]
    );
}

#[test]
fn differences_are_per_request_and_not_per_sample() {
    // Twice the samples for twice the requests is the same cost.
    let reference = folded(
        &[process("p", Plane::DataPlane, &[("main work", 10)])],
        200.0,
    );
    let stacks = [("main work", 20), ("main burn", 50)];
    let mesh = folded(&[process("p", Plane::DataPlane, &stacks)], 100.0);
    let sides = |folded| [(Plane::DataPlane, folded)].into_iter();
    let difference = Difference::new(sides(&reference), sides(&mesh));
    let functions = difference.functions();
    let own: Vec<_> = functions
        .iter()
        .map(|f| (f.function.as_str(), f.reference_ns, f.mesh_ns))
        .collect();
    assert_eq!(own, [("burn", 0.0, 5000.0), ("work", 2000.0, 2000.0)]);
}

#[test]
fn names_cannot_break_the_format_of_stacks() {
    let text = |function: Option<&str>, module: Option<&str>| {
        label(&Frame {
            function: function.map(str::to_owned),
            module: module.map(str::to_owned),
        })
    };
    assert_eq!(text(Some("<[u8; 4]>::f\n"), Some("p")), "<[u8: 4]>::f?");
    assert_eq!(text(Some("tcp_ack"), None), "tcp_ack_[k]");
    assert_eq!(text(None, Some("envoy")), "[envoy]");
    assert_eq!(text(None, None), "[kernel]_[k]");
}

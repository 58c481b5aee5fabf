use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that stands for the keeper, and ends with all that runs below it when this is dropped.
struct Keeper {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Keeper {
    fn start(program: &str, script: &str) -> Self {
        let mut command = Command::new(program);
        command.args(["-c", script]);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let mut keeper = Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        keeper.wait_for("ready");
        keeper
    }

    fn wait_for(&mut self, step: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), step);
    }

    /// Lets it do its next step, and waits for it.
    fn go_on(&mut self, step: &str) {
        self.stdin.write_all(b"\n").unwrap();
        self.wait_for(step);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        for pid in descendants(self.child.id()) {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const LOOP: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

#[test]
fn processes_at_any_depth_count_while_they_run_and_after_they_have_ended() {
    let script = format!(
        "export LOOP='{LOOP}'; echo ready; read x; eval \"$LOOP\"; sh -c 'sh -c \"$LOOP\"; true'; echo done; \
         read x; sh -c 'sleep 600; true' & echo more; wait"
    );
    let mut keeper = Keeper::start("sh", &script);
    let pid = keeper.child.id();
    let (mut tree, mut itself) = (Tree::new(pid), Process::new(pid));
    let before = tree.usage().unwrap();
    assert_eq!((before.cpu_ns, before.rss_bytes), (0, Some(0)));
    keeper.go_on("done");
    let (after, itself) = (tree.usage().unwrap(), itself.usage().unwrap());
    // A loop of 100,000 rounds takes longer than a tick.
    assert!(after.cpu_ns >= 10_000_000, "{after:?}");
    assert!(itself.cpu_ns >= 10_000_000);
    assert_eq!(tree.missing(), None);
    keeper.go_on("more");
    let begin = Instant::now();
    let has_both = |tree: &mut Tree| {
        let usage = tree.usage().unwrap();
        let pss = tree.pss_bytes();
        tree.members.len() == 2 && usage.rss_bytes > Some(100_000) && pss.is_none_or(|b| b > 0)
    };
    while !has_both(&mut tree) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{tree:?}");
        std::thread::yield_now();
    }
    assert!(tree.usage().unwrap().cpu_ns >= after.cpu_ns);
    assert!(tree.is_same());
    drop(keeper);
    assert_eq!(tree.usage(), None);
    assert!(!tree.is_same());
}

/// A process below the keeper burns CPU in a child; `setup` runs in the parent before, `wait` after the child has ended.
fn parent_of_a_busy_child(setup: &str, wait: &str) -> (Tree, Usage, Usage) {
    let script = format!(
        "
import os, signal, sys, time
if os.fork() == 0:
    {setup}
    print('ready', flush=True)
    sys.stdin.readline()
    child = os.fork()
    if child == 0:
        while time.process_time() < 0.3: pass
        print('burnt', flush=True)
        time.sleep(600)
    sys.stdin.readline()
    os.kill(child, 9)
    {wait}
    print('ended', flush=True)
    time.sleep(600)
os.wait()
"
    );
    let mut keeper = Keeper::start("python3", &script);
    let mut tree = Tree::new(keeper.child.id());
    keeper.go_on("burnt");
    let running = tree.usage().unwrap();
    tree.begin();
    keeper.go_on("ended");
    let ended = tree.usage().unwrap();
    (tree, running, ended)
}

const UNTIL_GONE: &str = "while os.path.exists('/proc/%d' % child): time.sleep(0.01)";

#[test]
fn a_child_that_ends_is_missing_only_if_nobody_waits_for_it() {
    for (setup, wait) in [
        ("pass", "os.wait()"),
        // A zombie.
        (
            "pass",
            "while ' Z ' not in open('/proc/%d/stat' % child).read(): time.sleep(0.01)",
        ),
    ] {
        let (tree, running, ended) = parent_of_a_busy_child(setup, wait);
        assert!(running.cpu_ns >= 300_000_000, "{running:?}");
        assert!(ended.cpu_ns >= running.cpu_ns, "{running:?} {ended:?}");
        assert_eq!(tree.missing(), None, "{wait}");
    }
    let ignoring = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)";
    let (tree, running, ended) = parent_of_a_busy_child(ignoring, UNTIL_GONE);
    assert!(ended.cpu_ns >= running.cpu_ns, "what was read is kept");
    let found = tree.missing().unwrap();
    assert!(found.contains("ignores the end of its children"), "{found}");
}

/// A process below the keeper ignores the end of its children; `script` is what it does.
fn ignoring(script: &str) -> Option<String> {
    let script = format!(
        "
import os, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print('ready', flush=True)
{script}
os.wait()
"
    );
    let keeper = Keeper::start("python3", &script);
    let mut tree = Tree::new(keeper.child.id());
    tree.usage().unwrap();
    tree.begin();
    // As long as a window: until it is found, or for a while.
    for _ in 0..100 {
        tree.usage().unwrap();
        if tree.missing().is_some() {
            break;
        }
    }
    tree.missing()
}

#[test]
fn children_too_short_for_two_readings_are_missing() {
    let short = "    while True:
        if os.fork() == 0: os._exit(0)
        time.sleep(0.02)";
    let found = ignoring(short).unwrap();
    assert!(found.contains("ignores the end of its children"), "{found}");
    assert_eq!(ignoring("    time.sleep(600)"), None, "it starts none");
    let lasting = "    if os.fork() == 0: time.sleep(600)
    time.sleep(600)";
    assert_eq!(ignoring(lasting), None, "its child does not end");
}

/// A reading of a keeper with this CPU time of ended children, and these processes: id, CPU time, and that of ended
/// children, in milliseconds.
fn reading(waited_ms: u64, members: &[(u32, u64, u64)]) -> Reading {
    let member = |(pid, cpu_ms, waited_ms): &(u32, u64, u64)| {
        let counts = Counts {
            start_ticks: u64::from(*pid),
            cpu_ns: cpu_ms * 1_000_000,
            waited_ns: waited_ms * 1_000_000,
            rss_bytes: 0,
            is_zombie: false,
        };
        (*pid, counts)
    };
    Reading {
        waited_ns: waited_ms * 1_000_000,
        members: members.iter().map(member).collect(),
    }
}

#[test]
fn the_time_of_an_ended_process_goes_to_its_parent_or_is_dropped() {
    let before = reading(0, &[(2, 700, 0), (3, 500, 100)]);
    let dropped_ms = |now: Reading| now.dropped_ns(&before) / 1_000_000;
    assert_eq!(dropped_ms(reading(0, &[(2, 900, 0), (3, 600, 100)])), 0);
    assert_eq!(dropped_ms(reading(0, &[(2, 900, 600)])), 0);
    assert_eq!(dropped_ms(reading(600, &[(2, 900, 0)])), 0, "to the keeper");
    assert_eq!(dropped_ms(reading(0, &[(2, 900, 590)])), 0, "in ticks");
    assert_eq!(dropped_ms(reading(0, &[(2, 900, 0)])), 600);
    assert_eq!(dropped_ms(reading(0, &[(2, 900, 200)])), 400);
    assert_eq!(dropped_ms(reading(1300, &[])), 0);
}

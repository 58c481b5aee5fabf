use tare_records::load::ErrorClass;
use tare_stats::Histogram;

use super::*;

#[test]
fn endpoint_statistics_do_not_depend_on_the_flushes() {
    let merged = |flush_each: u64| {
        let mut r = Recorder::new(3, 0, SECOND_NS, true);
        let mut page = SlotStats::default();
        for i in 0..3_000 {
            let name = (i % 2) as u32;
            r.planned(i, name);
            r.ended(i, i + i * i * 1_000, name, Ending::Ok);
            if i % flush_each == 0 {
                let stats = r.take();
                stats.seconds.iter().for_each(|(_, p)| page.merge(p, 3));
            }
        }
        r.take().seconds.iter().for_each(|(_, p)| page.merge(p, 3));
        page
    };
    for page in [merged(1), merged(7), merged(5_000)] {
        for (name, endpoint) in page.endpoints.iter().enumerate() {
            let mut all = Histogram::new();
            let mine = (0..3_000).filter(|i| i % 2 == name && name < 2);
            mine.for_each(|i| all.record((i * i * 1_000) as u64));
            let latency = endpoint.latency.get().cloned().unwrap_or_default();
            assert_eq!(latency.to_wire(), all.to_wire());
            assert_eq!(endpoint.counts.ok, all.len());
            assert_eq!(endpoint.counts.planned, all.len());
        }
        assert_eq!((page.endpoints.len(), page.counts.ok), (3, 3_000));
    }
}

#[test]
fn a_recorder_is_full_at_a_fixed_number_of_log_entries() {
    let mut r = Recorder::new(1, 0, SECOND_NS, true);
    let logged = (0..).take_while(|&i| {
        r.planned(i, 0);
        !r.is_full()
    });
    assert_eq!(logged.count(), LOGGED_MAX - 1);
    r.take();
    assert!(!r.is_full());
}

#[test]
fn a_full_recorder_keeps_its_statistics_while_too_many_are_unread() {
    let mut r = Recorder::new(2, 10, SECOND_NS, true);
    let mut unread = Vec::new();
    let mut sum = SlotStats::default();
    for at in 0..2_000 {
        r.planned(at, 1);
        r.ended(at, at + 5, 1, Ending::Ok);
        match r.is_full() {
            true if r.reader_is_behind() => r.apply_log(),
            true => unread.push(r.take()),
            false => {}
        }
    }
    assert_eq!(unread.len(), UNREAD_MAX);
    unread.push(r.take());
    for stats in &unread {
        sum.merge(&stats.warmup, 2);
        stats
            .seconds
            .iter()
            .for_each(|(_, page)| sum.merge(page, 2));
    }
    unread.clear();
    assert!(!r.reader_is_behind());
    let endpoint = &sum.endpoints[1];
    assert_eq!(
        (endpoint.counts.planned, endpoint.counts.ok),
        (2_000, 2_000)
    );
    assert_eq!(endpoint.latency.get().unwrap().len(), 2_000);
    assert_eq!(
        (sum.counts.planned, sum.endpoints[0].counts.planned),
        (2_000, 0)
    );
}

#[test]
fn slots_of_warm_parts_are_counted_in_the_warm_up() {
    let w = 5 * SECOND_NS;
    let warm = WarmParts {
        every_ns: 100,
        length_ns: 40,
    };
    let mut r = Recorder::new(1, w, SECOND_NS, false).with_warm_parts(warm);
    // Three of ten slots; each is sent within a warm part, which changes nothing.
    for n in 0..10 {
        let intended = w + n * 100 + if n < 3 { 39 } else { 40 };
        let sent = w + (n + 1) * 100;
        r.planned(intended, 0);
        r.sent(Instants { intended, sent }, 60, 0);
        r.responded(Instants { intended, sent }, sent + 5, 0, 200);
    }
    let stats = r.take();
    let counts = |page: &SlotStats| (page.counts.planned, page.counts.ok);
    assert_eq!(counts(&stats.warmup), (3, 3));
    let [(0, page)] = &stats.seconds[..] else {
        panic!("{:?}", stats.seconds);
    };
    assert_eq!(counts(page), (7, 7));
    assert_eq!((page.sent, page.latency.get().unwrap().len()), (7, 7));
}

#[test]
fn slots_go_to_the_second_of_their_intended_instant() {
    let w = 5 * SECOND_NS;
    let mut r = Recorder::new(2, w, 2 * SECOND_NS, false);
    let at = |intended, sent| Instants { intended, sent };
    r.planned(w - 1, 0);
    r.planned(w, 1);
    r.sent(at(w, w + SECOND_NS), 7, 0);
    r.responded(at(w, w + SECOND_NS), w + SECOND_NS + 5, 1, 200);
    r.planned(w + SECOND_NS, 0);
    r.sent(at(w + SECOND_NS, w + 2 * SECOND_NS), 1, 1);
    r.ended(
        w + SECOND_NS,
        w + 2 * SECOND_NS,
        0,
        Ending::Failed(ErrorClass::Reset),
    );
    let stats = r.take();
    assert_eq!(stats.warmup.counts.planned, 1);
    let page = |s: u32| &stats.seconds.iter().find(|(n, _)| *n == s).unwrap().1;
    assert_eq!((page(0).counts.ok, page(0).sent, page(1).sent), (1, 0, 1));
    assert_eq!(page(0).latency.get().unwrap().max(), SECOND_NS + 5);
    assert_eq!(page(0).service_time.get().unwrap().max(), 5);
    assert_eq!(page(1).errors[ErrorClass::Reset as usize], 1);
    let (class, latency) = &page(1).endpoints[0].error_latency[0];
    assert_eq!((*class, latency.max()), (ErrorClass::Reset, SECOND_NS));
    assert_eq!((page(0).ended_in_window, page(1).ended_in_window), (1, 0));
    let mut sum = SlotStats::default();
    stats
        .seconds
        .iter()
        .for_each(|(_, page)| sum.merge(page, 2));
    let of = |name: usize| {
        let c = sum.endpoints[name].counts;
        (c.planned, c.ok, c.error)
    };
    assert_eq!([of(0), of(1)], [(1, 0, 1), (1, 1, 0)]);
    assert_eq!(
        stats.seconds.len(),
        2,
        "a request sent after the window belongs to no second"
    );
    assert!(r.take().seconds.is_empty());
}

//! What one loop thread writes down: per second of intended time and per
//! endpoint, in histograms that are handed over whole about once a second.

use std::sync::Arc;

use tare_model::load::{Counts, ErrorClass};
use tare_stats::Histogram;

/// One second in nanoseconds.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// How a slot ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A complete response with a status below 400.
    Ok,
    /// Anything else.
    Failed(ErrorClass),
}

/// Errors and timeouts by the discriminant of [`ErrorClass`].
pub(crate) type Errors = [u64; ErrorClass::ALL.len()];

/// Adds `from` to `to`.
pub(crate) fn add_errors(to: &mut Errors, from: &Errors) {
    to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
}

/// A histogram that costs nothing until it is used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lazy(Option<Box<Histogram>>);

impl Lazy {
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        if cfg!(feature = "unrecorded") {
            return;
        }
        self.0.get_or_insert_with(Box::default).record(ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Some(a), Some(b)) => a.merge(b),
            (mine @ None, Some(b)) => *mine = Some(b.clone()),
            (_, None) => {}
        }
    }

    pub(crate) fn get(&self) -> Option<&Histogram> {
        self.0.as_deref()
    }
}

/// One endpoint's part.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndpointBook {
    pub(crate) counts: Counts,
    pub(crate) errors: Errors,
    pub(crate) latency: Lazy,
    /// gRPC calls by `grpc-status`, few and therefore in a list.
    pub(crate) grpc_status: Vec<(u32, u64)>,
    /// Of errors and timeouts, by class: few and therefore in a list.
    pub(crate) error_latency: Vec<(ErrorClass, Histogram)>,
}

impl EndpointBook {
    #[cold]
    fn error_latency(&mut self, class: ErrorClass) -> &mut Histogram {
        let found = self.error_latency.iter().position(|(c, _)| *c == class);
        let index = found.unwrap_or_else(|| {
            self.error_latency.push((class, Histogram::new()));
            self.error_latency.len() - 1
        });
        &mut self.error_latency[index].1
    }

    fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        add_errors(&mut self.errors, &other.errors);
        self.latency.merge(&other.latency);
        for &(status, n) in &other.grpc_status {
            count(&mut self.grpc_status, status, n);
        }
        for (class, latency) in &other.error_latency {
            self.error_latency(*class).merge(latency);
        }
    }
}

/// What a loop tells of endpoints, as it came. With a thousand endpoints each request
/// belongs to another one, whose book is in no near cache any more; the end of a list
/// always is. Whoever takes the page writes it into the books, all at once.
#[derive(Debug, Clone, Default)]
struct Told {
    /// Names of planned slots.
    planned: Vec<u32>,
    /// Names and latencies in nanoseconds of slots that ended well.
    ok: Vec<(u32, u64)>,
}

impl Told {
    fn write(&self, books: &mut [EndpointBook]) {
        for &name in &self.planned {
            books[name as usize].counts.planned += 1;
        }
        for &(name, latency) in &self.ok {
            let book = &mut books[name as usize];
            book.counts.ok += 1;
            book.latency.record(latency);
        }
    }
}

/// Everything about the slots of one stretch of intended time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    pub(crate) counts: Counts,
    /// By sent time, unlike the rest.
    pub(crate) sent: u64,
    /// Slots that came to their end before the window's.
    pub(crate) ended_in_window: u64,
    /// Slots given up before they were due.
    pub(crate) not_due: u64,
    pub(crate) latency: Lazy,
    pub(crate) service_time: Lazy,
    pub(crate) lateness: Lazy,
    pub(crate) wait: Lazy,
    pub(crate) error_latency: Lazy,
    /// Of HTTP/2 only.
    pub(crate) stream_wait: Lazy,
    /// Of streaming gRPC calls only.
    pub(crate) message_latency: Lazy,
    pub(crate) errors: Errors,
    /// Responses by status code, few and therefore in a list.
    pub(crate) status: Vec<(u16, u64)>,
    /// gRPC calls by `grpc-status`, likewise.
    pub(crate) grpc_status: Vec<(u32, u64)>,
    /// By index of name; empty until something of one is written. Without what is told.
    pub(crate) endpoints: Vec<EndpointBook>,
    told: Told,
}

impl Page {
    /// The endpoints' books, made when there are none.
    fn books(&mut self, names: usize) -> &mut [EndpointBook] {
        if self.endpoints.is_empty() {
            self.endpoints.resize_with(names, EndpointBook::default);
        }
        &mut self.endpoints
    }

    #[inline]
    fn endpoint(&mut self, name: u32, names: usize) -> &mut EndpointBook {
        &mut self.books(names)[name as usize]
    }

    /// The endpoint's counts, and the page's own.
    fn both(&mut self, name: u32, names: usize) -> [&mut Counts; 2] {
        self.books(names);
        [&mut self.endpoints[name as usize].counts, &mut self.counts]
    }

    /// Adds all of `other`, in which `names` endpoints have a book.
    pub(crate) fn merge(&mut self, other: &Self, names: usize) {
        self.counts.add(&other.counts);
        self.sent += other.sent;
        self.ended_in_window += other.ended_in_window;
        self.not_due += other.not_due;
        self.latency.merge(&other.latency);
        self.service_time.merge(&other.service_time);
        self.lateness.merge(&other.lateness);
        self.wait.merge(&other.wait);
        self.error_latency.merge(&other.error_latency);
        self.stream_wait.merge(&other.stream_wait);
        self.message_latency.merge(&other.message_latency);
        add_errors(&mut self.errors, &other.errors);
        for &(status, n) in &other.status {
            count(&mut self.status, status, n);
        }
        for &(status, n) in &other.grpc_status {
            count(&mut self.grpc_status, status, n);
        }
        let books = self.books(names);
        for (mine, theirs) in books.iter_mut().zip(&other.endpoints) {
            mine.merge(theirs);
        }
        other.told.write(books);
    }
}

/// Adds `n` of `key` to a short list of counts.
#[inline]
fn count<K: PartialEq>(counts: &mut Vec<(K, u64)>, key: K, n: u64) {
    match counts.iter_mut().find(|(k, _)| *k == key) {
        Some((_, m)) => *m += n,
        None => counts.push((key, n)),
    }
}

/// What is handed over: pages by second of the window, and the warm-up's own.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Second of the window and its page, in no order.
    pub(crate) pages: Vec<(u32, Page)>,
    /// Slots of the warm-up: outside the books, for the progress line only.
    pub(crate) warmup: Page,
    /// Requests sent, warm-up included.
    pub(crate) sent: u64,
    /// The recorder's, so that it knows how many of its books are not read yet.
    held: Arc<()>,
}

/// A request that was sent, and its instants, absolute in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Instants {
    pub(crate) intended: u64,
    pub(crate) sent: u64,
}

/// Writes into a [`Book`].
#[derive(Debug)]
pub(crate) struct Recorder {
    book: Book,
    names: usize,
    window_start: u64,
    window_end: u64,
    /// Index of the page used last, and when its second begins.
    current: usize,
    current_from: u64,
    /// Closed loop: lateness and wait have no meaning there.
    closed_loop: bool,
    /// Entries in lists of what was told, over all pages.
    told: usize,
    /// Held by each book that was handed over, too.
    held: Arc<()>,
}

/// So much is told before a book is to be handed over: 1 MiB, whatever the rate. In tests
/// so little that most worlds get there.
const TOLD_MAX: usize = if cfg!(test) { 61 } else { 1 << 16 };
/// So many books may wait to be read before a full one stays here.
const UNREAD_MAX: usize = 8;

impl Recorder {
    pub(crate) fn new(names: usize, window_start: u64, window_ns: u64, closed_loop: bool) -> Self {
        Self {
            book: Book::default(),
            names,
            window_start,
            window_end: window_start + window_ns,
            current: usize::MAX,
            current_from: 0,
            closed_loop,
            told: 0,
            held: Arc::default(),
        }
    }

    /// The window ends already at `now`: what is sent or done later lies outside it.
    pub(crate) fn end_window(&mut self, now: u64) {
        self.window_end = self.window_end.min(now);
    }

    /// The page for `at`; the warm-up's before the window.
    #[inline]
    fn page(&mut self, at: u64) -> &mut Page {
        if at < self.window_start {
            return &mut self.book.warmup;
        }
        let known = self.current != usize::MAX && at.wrapping_sub(self.current_from) < SECOND_NS;
        if !known {
            self.turn_to(at);
        }
        &mut self.book.pages[self.current].1
    }

    #[cold]
    fn turn_to(&mut self, at: u64) {
        let second = ((at - self.window_start) / SECOND_NS) as u32;
        self.current_from = self.window_start + u64::from(second) * SECOND_NS;
        let found = self.book.pages.iter().rposition(|(s, _)| *s == second);
        self.current = found.unwrap_or_else(|| {
            self.book.pages.push((second, Page::default()));
            self.book.pages.len() - 1
        });
    }

    /// A slot was taken from the schedule.
    #[inline]
    pub(crate) fn planned(&mut self, intended: u64, name: u32) {
        self.told += 1;
        let page = self.page(intended);
        page.counts.planned += 1;
        page.told.planned.push(name);
    }

    /// A request is about to be written.
    #[inline]
    pub(crate) fn sent(&mut self, at: Instants, lateness: u64, wait: u64) {
        self.book.sent += 1;
        let counted = at.intended >= self.window_start && at.sent < self.window_end;
        if !self.closed_loop {
            let page = self.page(at.intended);
            page.lateness.record(lateness);
            page.wait.record(wait);
        }
        if counted {
            self.page(at.sent).sent += 1;
        }
    }

    /// A slot was reached only after its timeout, and will not be sent.
    pub(crate) fn late(&mut self, intended: u64, lateness: u64) {
        let page = self.page(intended);
        page.lateness.record(lateness);
        page.wait.record(0);
    }

    /// A sent slot came to its end with a complete response.
    #[inline]
    pub(crate) fn responded(&mut self, at: Instants, done: u64, name: u32, status: u16) {
        let ending = match status {
            0..400 => Ending::Ok,
            400..500 => Ending::Failed(ErrorClass::Status4xx),
            _ => Ending::Failed(ErrorClass::Status5xx),
        };
        self.complete(at, done, name, status, ending);
    }

    /// A gRPC call came to its end with a status of its own.
    #[inline]
    pub(crate) fn called(&mut self, at: Instants, done: u64, name: u32, status: u16, grpc: u32) {
        let ending = match grpc {
            0 => Ending::Ok,
            _ => Ending::Failed(ErrorClass::GrpcStatus),
        };
        let names = self.names;
        let page = self.page(at.intended);
        count(&mut page.grpc_status, grpc, 1);
        count(&mut page.endpoint(name, names).grpc_status, grpc, 1);
        self.complete(at, done, name, status, ending);
    }

    /// Messages of a streaming call came at once: `first` nanoseconds after what was
    /// before the first of them.
    pub(crate) fn messages(&mut self, intended: u64, first: u64, completed: u32) {
        let latency = &mut self.page(intended).message_latency;
        latency.record(first);
        (1..completed).for_each(|_| latency.record(0));
    }

    /// Of a slot's wait, the part for a stream.
    #[inline]
    pub(crate) fn stream_wait(&mut self, intended: u64, ns: u64) {
        if !self.closed_loop {
            self.page(intended).stream_wait.record(ns);
        }
    }

    #[inline]
    fn complete(&mut self, at: Instants, done: u64, name: u32, status: u16, ending: Ending) {
        count(&mut self.page(at.intended).status, status, 1);
        if ending == Ending::Ok {
            let service = done.saturating_sub(at.sent);
            self.page(at.intended).service_time.record(service);
        }
        self.ended(at.intended, done, name, ending);
    }

    /// A slot came to its end.
    #[inline]
    pub(crate) fn ended(&mut self, intended: u64, done: u64, name: u32, ending: Ending) {
        let (names, in_window) = (self.names, done < self.window_end);
        let latency = done.saturating_sub(intended);
        let page = self.page(intended);
        page.ended_in_window += u64::from(in_window);
        match ending {
            Ending::Ok => {
                page.latency.record(latency);
                page.counts.ok += 1;
                page.told.ok.push((name, latency));
                self.told += 1;
            }
            Ending::Failed(class) => {
                page.error_latency.record(latency);
                let endpoint = page.endpoint(name, names);
                endpoint.error_latency(class).record(latency);
                Self::failed(page, name, names, class);
            }
        }
    }

    fn failed(page: &mut Page, name: u32, names: usize, class: ErrorClass) {
        page.errors[class as usize] += 1;
        page.endpoint(name, names).errors[class as usize] += 1;
        for counts in page.both(name, names) {
            match class.is_timeout() {
                true => counts.timeout += 1,
                false => counts.error += 1,
            }
        }
    }

    /// A slot will never come to its end: sent and still open, or never sent.
    pub(crate) fn left_over(&mut self, intended: u64, name: u32, sent: bool) {
        let names = self.names;
        for counts in self.page(intended).both(name, names) {
            match sent {
                true => counts.in_flight += 1,
                false => counts.not_sent += 1,
            }
        }
    }

    /// A slot is given up before it is due: failed when nothing can work
    /// (without a latency, for it has none), else not sent.
    pub(crate) fn given_up(&mut self, intended: u64, name: u32, class: Option<ErrorClass>) {
        let names = self.names;
        let page = self.page(intended);
        page.not_due += 1;
        // Not told, but written: they come by the million.
        for counts in page.both(name, names) {
            counts.planned += 1;
        }
        match class {
            Some(class) => {
                Self::failed(self.page(intended), name, names, class);
            }
            None => self.left_over(intended, name, false),
        }
    }

    /// Whether the book is to be handed over for its length.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.told >= TOLD_MAX
    }

    /// Whether whoever reads the books is behind.
    pub(crate) fn is_read_late(&self) -> bool {
        Arc::strong_count(&self.held) > UNREAD_MAX
    }

    /// Writes what was told into the pages here, so that it takes no more room.
    #[cold]
    pub(crate) fn keep_told(&mut self) {
        let pages = self.book.pages.iter_mut().map(|(_, page)| page);
        for page in pages.chain([&mut self.book.warmup]) {
            let told = std::mem::take(&mut page.told);
            told.write(page.books(self.names));
        }
        self.told = 0;
    }

    /// Hands over everything written since the last time.
    pub(crate) fn take(&mut self) -> Book {
        self.current = usize::MAX;
        self.told = 0;
        let mut book = std::mem::take(&mut self.book);
        book.held = Arc::clone(&self.held);
        book
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_what_was_told_of_them_however_it_was_handed_over() {
        let pages = |hand_over_each: u64| {
            let mut r = Recorder::new(3, 0, SECOND_NS, true);
            let mut page = Page::default();
            for i in 0..3_000 {
                let name = (i % 2) as u32;
                r.planned(i, name);
                r.ended(i, i + i * i * 1_000, name, Ending::Ok);
                if i % hand_over_each == 0 {
                    let book = r.take();
                    book.pages.iter().for_each(|(_, p)| page.merge(p, 3));
                }
            }
            r.take().pages.iter().for_each(|(_, p)| page.merge(p, 3));
            page
        };
        for page in [pages(1), pages(7), pages(5_000)] {
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
    fn a_book_is_full_before_it_is_large() {
        let mut r = Recorder::new(1, 0, SECOND_NS, true);
        let told = (0..).take_while(|&i| {
            r.planned(i, 0);
            !r.is_full()
        });
        assert_eq!(told.count(), TOLD_MAX - 1);
        r.take();
        assert!(!r.is_full());
    }

    #[test]
    fn a_full_book_is_kept_while_others_are_not_read() {
        let mut r = Recorder::new(2, 10, SECOND_NS, true);
        let mut unread = Vec::new();
        let mut sum = Page::default();
        for at in 0..2_000 {
            r.planned(at, 1);
            r.ended(at, at + 5, 1, Ending::Ok);
            match r.is_full() {
                true if r.is_read_late() => r.keep_told(),
                true => unread.push(r.take()),
                false => {}
            }
        }
        assert_eq!(unread.len(), UNREAD_MAX);
        unread.push(r.take());
        for book in &unread {
            sum.merge(&book.warmup, 2);
            book.pages.iter().for_each(|(_, page)| sum.merge(page, 2));
        }
        unread.clear();
        assert!(!r.is_read_late());
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
        let book = r.take();
        assert_eq!(book.warmup.counts.planned, 1);
        let page = |s: u32| &book.pages.iter().find(|(n, _)| *n == s).unwrap().1;
        assert_eq!((page(0).counts.ok, page(0).sent, page(1).sent), (1, 0, 1));
        assert_eq!(page(0).latency.get().unwrap().max(), SECOND_NS + 5);
        assert_eq!(page(0).service_time.get().unwrap().max(), 5);
        assert_eq!(page(1).errors[ErrorClass::Reset as usize], 1);
        let (class, latency) = &page(1).endpoints[0].error_latency[0];
        assert_eq!((*class, latency.max()), (ErrorClass::Reset, SECOND_NS));
        assert_eq!((page(0).ended_in_window, page(1).ended_in_window), (1, 0));
        let mut sum = Page::default();
        book.pages.iter().for_each(|(_, page)| sum.merge(page, 2));
        let of = |name: usize| {
            let c = sum.endpoints[name].counts;
            (c.planned, c.ok, c.error)
        };
        assert_eq!([of(0), of(1)], [(1, 0, 1), (1, 1, 0)]);
        assert_eq!(
            book.pages.len(),
            2,
            "sent after the window belongs to no second"
        );
        assert!(r.take().pages.is_empty());
    }
}

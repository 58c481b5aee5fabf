//! One stretch of intended time: everything that is counted of its slots.

use tare_model::load::{Counts, ErrorClass};
use tare_stats::Histogram;

/// Errors and timeouts by the discriminant of [`ErrorClass`].
pub(crate) type Errors = [u64; ErrorClass::ALL.len()];

/// Adds `from` to `to`.
fn add_errors(to: &mut Errors, from: &Errors) {
    to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
}

/// A histogram that costs nothing until it is used, and then has pages: the loop has no time
/// to make many at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lazy(Option<Box<Histogram>>);

impl Lazy {
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        if cfg!(feature = "unrecorded") {
            return;
        }
        let pages = || Box::new(Histogram::in_pages());
        self.0.get_or_insert_with(pages).record(ns);
    }

    /// The same outside of the loop, where few values a histogram are usual.
    fn record_few(&mut self, ns: u64) {
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
    pub(super) fn error_latency(&mut self, class: ErrorClass) -> &mut Histogram {
        let found = self.error_latency.iter().position(|(c, _)| *c == class);
        let index = found.unwrap_or_else(|| {
            self.error_latency.push((class, Histogram::in_pages()));
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
pub(super) struct Told {
    /// Names of planned slots.
    pub(super) planned: Vec<u32>,
    /// Names and latencies in nanoseconds of slots that ended well.
    pub(super) ok: Vec<(u32, u64)>,
}

impl Told {
    fn write(&self, books: &mut [EndpointBook]) {
        for &name in &self.planned {
            books[name as usize].counts.planned += 1;
        }
        for &(name, latency) in &self.ok {
            let book = &mut books[name as usize];
            book.counts.ok += 1;
            book.latency.record_few(latency);
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
    pub(super) told: Told,
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
    pub(super) fn endpoint(&mut self, name: u32, names: usize) -> &mut EndpointBook {
        &mut self.books(names)[name as usize]
    }

    /// The endpoint's counts, and the page's own.
    pub(super) fn both(&mut self, name: u32, names: usize) -> [&mut Counts; 2] {
        self.books(names);
        [&mut self.endpoints[name as usize].counts, &mut self.counts]
    }

    /// Writes what was told into the endpoints' books, so that it takes no more room.
    pub(super) fn keep_told(&mut self, names: usize) {
        let told = std::mem::take(&mut self.told);
        told.write(self.books(names));
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
pub(super) fn count<K: PartialEq>(counts: &mut Vec<(K, u64)>, key: K, n: u64) {
    match counts.iter_mut().find(|(k, _)| *k == key) {
        Some((_, m)) => *m += n,
        None => counts.push((key, n)),
    }
}

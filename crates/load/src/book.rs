//! What one loop thread writes down: per second of intended time and per
//! endpoint, in histograms that are handed over whole about once a second.

use std::sync::Arc;

use tare_model::load::ErrorClass;

mod page;

use page::count;
pub(crate) use page::{EndpointBook, Errors, Lazy, Page};

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

    /// Writes what was told into the pages here.
    #[cold]
    pub(crate) fn keep_told(&mut self) {
        let pages = self.book.pages.iter_mut().map(|(_, page)| page);
        for page in pages.chain([&mut self.book.warmup]) {
            page.keep_told(self.names);
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
mod tests;

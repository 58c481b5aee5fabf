//! Marks in time: each second, and the ends of the window. A mark is passed when
//! the clock and the schedule are both beyond it, so that the seconds before it
//! are planned to the last slot even when the loop was held up.

use crate::book::SECOND_NS;
use crate::driver::Driver;

use super::{Engine, Flush, LoopEnd, Marks, Sample};

impl<D: Driver> Engine<'_, D> {
    pub(super) fn begin_marks(&mut self, start: u64) {
        // The first whole second before the window that lies after the start.
        let whole = self.plan.warmup_ns / SECOND_NS;
        let mut tick = self.window_start - whole * SECOND_NS;
        if tick <= start {
            tick += SECOND_NS;
        }
        self.marks = Marks {
            tick,
            ..Marks::default()
        };
        self.choose_mark();
    }

    fn choose_mark(&mut self) {
        let m = &mut self.marks;
        m.next = m.tick;
        if !m.window_open && !m.window_over {
            m.next = m.next.min(self.window_start);
        } else if !m.window_over {
            m.next = m.next.min(self.window_end);
        }
    }

    pub(super) fn pass_mark(&mut self) {
        let at = self.marks.next;
        if !self.marks.window_open && !self.marks.window_over && at >= self.window_start {
            self.marks.window_open = true;
            self.marks.at_window_start = self.sample();
        }
        if self.marks.window_open && at >= self.window_end {
            self.close_window();
        }
        if at >= self.marks.tick {
            self.marks.tick += SECOND_NS;
        }
        let planned_to = at.min(self.rest.at);
        let planned_before = if planned_to >= self.window_end {
            u32::MAX
        } else {
            self.second_of(planned_to)
        };
        self.flush(Some(at), planned_before, None);
        self.choose_mark();
    }

    fn sample(&mut self) -> Sample {
        Sample {
            at: self.driver.now(),
            idle_ns: self.driver.idle_ns(),
            process_cpu_ns: self.driver.process_cpu_ns(),
        }
    }

    /// Ends the window for what the loop counts of itself.
    pub(super) fn close_window(&mut self) {
        if self.marks.window_open {
            let (from, to) = (self.marks.at_window_start, self.sample());
            self.end.window_ns = to.at - from.at;
            self.end.idle_ns = to.idle_ns - from.idle_ns;
            self.end.process_cpu_ns = to.process_cpu_ns - from.process_cpu_ns;
        }
        self.marks.window_open = false;
        self.marks.window_over = true;
    }

    pub(super) fn flush(&mut self, at: Option<u64>, planned_before: u32, end: Option<LoopEnd>) {
        let book = self.recorder.take();
        let t_ns = at.map(|at| at as i64 - self.window_start as i64);
        (self.sink)(Flush {
            book,
            t_ns,
            planned_before,
            end,
        });
    }
}

//! Marks in time: each second, and the start and end of the window. A mark is passed when
//! both the clock and the schedule are beyond it. All slots of the seconds before it are then
//! planned, even when the loop was delayed. In a closed loop, the users whose connection did not
//! open are planned later.

use crate::driver::Driver;
use tare_plan::limits::SECOND_NS;

use super::{Engine, Flush, LoopEnd, Marks, Reading};

impl<D: Driver> Engine<'_, D> {
    pub(super) fn begin_marks(&mut self, start: u64) {
        // The first whole second, counted from the window, that is after the start.
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
            self.marks.at_window_start = self.reading();
            if self.is_closed_loop() {
                self.open_window_of_users();
            }
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

    fn reading(&mut self) -> Reading {
        Reading {
            at: self.driver.now(),
            idle_ns: self.driver.idle_ns(),
            process_cpu_ns: self.driver.process_cpu_ns(),
        }
    }

    /// Ends the window for the loop's own counts.
    pub(super) fn close_window(&mut self) {
        if self.marks.window_open {
            let (from, to) = (self.marks.at_window_start, self.reading());
            self.end.window_ns = to.at - from.at;
            self.end.idle_ns = to.idle_ns - from.idle_ns;
            self.end.process_cpu_ns = to.process_cpu_ns - from.process_cpu_ns;
        }
        self.marks.window_open = false;
        self.marks.window_over = true;
    }

    pub(super) fn flush(&mut self, at: Option<u64>, planned_before: u32, end: Option<LoopEnd>) {
        let stats = self.recorder.take();
        let t_ns = at.map(|at| at as i64 - self.window_start as i64);
        let opened = match end {
            Some(_) => self.pools.iter().map(|p| p.addresses.counts()).collect(),
            None => Vec::new(),
        };
        (self.sink)(Flush {
            stats,
            t_ns,
            planned_before,
            end,
            opened,
        });
    }
}

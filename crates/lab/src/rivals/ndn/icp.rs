//! ICP: one Interest more per window, three quarters left after a timeout, at most once per two windows of Data.
//! reference/baselines.
use tributary_core::{Random, Time};

use super::{Answer, Window};

#[derive(Clone, Debug)]
pub(super) struct Icp {
    window: f64,
    data_since_decrease: f64,
}

impl Default for Icp {
    fn default() -> Self {
        Icp { window: 1.0, data_since_decrease: f64::INFINITY }
    }
}

impl Window for Icp {
    fn on_data(&mut self, _: Time, _: &Answer<'_>, _: &mut Random) {
        self.window += 1.0 / self.window;
        self.data_since_decrease += 1.0;
    }
    fn on_timeout(&mut self, _: Time, _: Time) {
        if self.data_since_decrease >= 2.0 * self.window {
            self.window = (self.window * 0.75).max(1.0);
            self.data_since_decrease = 0.0;
        }
    }
    fn interests(&self) -> f64 {
        self.window
    }
}

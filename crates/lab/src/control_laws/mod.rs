//! Control laws that no product needs, to compare with: windows and couplings of the literature.
mod couplings;
mod weighted_vegas;

pub(crate) use couplings::{BALIA, OLIA};
pub(crate) use weighted_vegas::WEIGHTED_VEGAS;

//! The papers' experiments on the simulator, the rivals that stand beside them, figures and report.

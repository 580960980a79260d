//! The example of a simulation runs as described.
#[allow(dead_code, reason = "its main is for people")]
#[path = "../../examples/simulate.rs"]
mod simulate;

#[test]
fn the_example_of_a_simulation_is_complete_and_repeats_itself() {
    let [one, again] = [1, 1].map(|seed| simulate::simulate(seed).unwrap());
    assert!(one.is_complete());
    assert_eq!(one.trace_hash, again.trace_hash);
}

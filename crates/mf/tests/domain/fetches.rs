//! Objects that are asked for.
use super::*;

#[test]
fn a_file_comes_through_two_routers() {
    let mut domain = figure_7(1, ms(20), 0.0, |_| {});
    let bytes = random_bytes(3_000_000, 1);
    domain.publish("n1", object("/lab/file", bytes.clone()));
    domain.run(Duration::from_secs(2));
    let (id, content) = domain.fetch("n4", "/lab/file");
    let time = domain.finish("n4", id, 30);
    println!("3 MB in {time:?}: {:?}", domain.report("n4", id));
    assert_eq!(content.finished(&name("/lab/file")).unwrap(), bytes);
    domain.run(Duration::from_secs(2));
    domain.assert_conservation();
}

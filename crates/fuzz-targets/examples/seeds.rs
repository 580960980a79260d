//! Writes the valid inputs that the fuzzers start from into `fuzz/corpus`.
use std::{fs, path::Path};

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, name, bytes) in fuzz_targets::seeds::all() {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

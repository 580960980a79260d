#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_targets::mf_store::mf_store(data));

//! Lets the linker merge functions with the same code: generic types make two megabytes of copies.
use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Here Rust links with its own lld; a linker elsewhere may not know the flag.
    let target = ["CARGO_CFG_TARGET_ARCH", "CARGO_CFG_TARGET_OS", "CARGO_CFG_TARGET_ENV"]
        .map(|name| var(name).unwrap_or_default());
    if target == ["x86_64", "linux", "gnu"] && var("PROFILE").as_deref() == Ok("release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

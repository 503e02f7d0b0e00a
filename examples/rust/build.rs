//! Finds the installed library by pkg-config, and makes Rust declarations of its header.

use std::{env, path::PathBuf};

fn main() {
    let perdure = pkg_config::Config::new()
        .atleast_version("0.1")
        .probe("perdure")
        .expect("pkg-config finds perdure: set PKG_CONFIG_PATH to the lib/pkgconfig of its prefix");
    for path in &perdure.link_paths {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", path.display());
    }
    let include = &perdure.include_paths[0];
    let header = include.join("perdure/perdure.h");
    println!("cargo:rerun-if-changed={}", header.display());
    let declarations = bindgen::Builder::default()
        .header(header.display().to_string())
        .clang_arg(format!("-I{}", include.display()))
        .allowlist_item("(perdure|PERDURE)_.*")
        .prepend_enum_name(false)
        .generate()
        .expect("bindgen reads perdure.h");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    declarations.write_to_file(out.join("perdure.rs")).expect("OUT_DIR can be written");
}

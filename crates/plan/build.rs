//! Embeds the files of `graphs/`, `meshes/` and `plans/` in the program, so that a new file needs
//! no code. Only reads these folders; starts no process.

#![expect(clippy::disallowed_methods, reason = "a build script writes a file")]

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?)
        .join("../..")
        .canonicalize()?;
    let mut source = String::new();
    for folder in ["graphs", "meshes", "plans"] {
        let path = root.join(folder);
        println!("cargo::rerun-if-changed={}", path.display());
        let mut files = Vec::new();
        for entry in fs::read_dir(&path)? {
            files.push(entry?.path());
        }
        files.retain(|file| {
            file.extension()
                .is_some_and(|extension| extension == "yaml")
        });
        files.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));
        writeln!(
            source,
            "/// File names and texts of `{folder}/`, in alphabetical order."
        )?;
        writeln!(
            source,
            "pub(crate) static {}: &[(&str, &str)] = &[",
            folder.to_uppercase()
        )?;
        for file in files {
            let name = file.strip_prefix(&root)?;
            writeln!(source, "    ({name:?}, include_str!({file:?})),")?;
        }
        writeln!(source, "];")?;
    }
    fs::write(
        Path::new(&env::var("OUT_DIR")?).join("builtin_files.rs"),
        source,
    )?;
    Ok(())
}

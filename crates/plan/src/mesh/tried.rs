//! The tables of README.md and docs/meshes.md that state where each mesh has run, made from `tried` in the mesh files.

use std::fmt::Write as _;
use std::path::Path;

use super::Catalogue;

const BEGIN: &str = "<!-- made from `tried` in meshes/*.yaml -->\n";
const END: &str = "<!-- end -->\n";

/// The table: meshes with the same `tried` share a row.
fn table() -> String {
    let catalogue = Catalogue::default();
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for name in catalogue.names() {
        let section = catalogue.get(name).and_then(|m| m.kubernetes);
        let Some(tried) = section.map(|s| s.tried).filter(|t| !t.is_empty()) else {
            continue;
        };
        match rows.iter_mut().find(|(text, _)| *text == tried) {
            Some((_, names)) => names.push(name),
            None => rows.push((tried, vec![name])),
        }
    }
    let mut text = String::from("| mesh on a cluster | where it has run |\n|---|---|\n");
    for (tried, names) in rows {
        let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
        let _ = writeln!(text, "| {} | {tried} |", names.join(", "));
    }
    text
}

/// `TARE_UPDATE=1` writes the tables again.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test reads and writes documents"
)]
fn the_tables_of_the_documents_are_those_of_the_mesh_files() {
    for document in ["README.md", "docs/meshes.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(document);
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let expected = format!("{before}{BEGIN}{}{END}{after}", table());
        if std::env::var_os("TARE_UPDATE").is_some() {
            std::fs::write(&path, expected).unwrap();
        } else {
            let command = "TARE_UPDATE=1 cargo test -p tare-plan --lib";
            assert_eq!(text, expected, "{document}: write it again with {command}");
        }
    }
}

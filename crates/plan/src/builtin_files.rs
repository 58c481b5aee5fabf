//! The files of `graphs/`, `meshes/` and `plans/`: the build script lists them.

include!(concat!(env!("OUT_DIR"), "/builtin_files.rs"));

/// The name of a file without its folder and extension.
pub(crate) fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".yaml").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_three_folders_is_built_in() {
        for (folder, built_in) in [("graphs", GRAPHS), ("meshes", MESHES), ("plans", PLANS)] {
            let path = format!("{}/../../{folder}", env!("CARGO_MANIFEST_DIR"));
            let mut files: Vec<String> = std::fs::read_dir(path)
                .unwrap()
                .map(|e| format!("{folder}/{}", e.unwrap().file_name().to_string_lossy()))
                .collect();
            files.sort_by(|a, b| stem(a).cmp(stem(b)));
            let names: Vec<&str> = built_in.iter().map(|(file, _)| *file).collect();
            assert_eq!(names, files);
        }
    }
}

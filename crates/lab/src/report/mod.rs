//! From results to files: JSON, CSV, SVG, PDF, PNG, and one page that holds everything.
mod page;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Results, experiments};

pub use page::page;

/// Writes the files of one experiment into its own folder in `folder`: `result.json`, tables, drawings, and a page.
/// Returns their paths.
///
/// # Errors
/// Errors of the file system.
pub fn write(results: &Results, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let own = folder.join(&results.experiment);
    fs::create_dir_all(&own)?;
    let mut written = Vec::new();
    let mut put = |name: String, content: &[u8]| {
        let path = own.join(name);
        fs::write(&path, content)?;
        written.push(path);
        Ok::<(), io::Error>(())
    };
    let json = serde_json::to_string(results).expect("numbers and strings can always be written");
    put("result.json".into(), json.as_bytes())?;
    for table in &results.tables {
        put(format!("{}.csv", table.name), table.csv().as_bytes())?;
    }
    for figure in &results.figures {
        let files = figure.files().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        files.into_iter().try_for_each(|(name, content)| put(name, &content))?;
    }
    put("report.html".into(), page(std::slice::from_ref(results)).as_bytes())?;
    Ok(written)
}

/// The results that are in `folder`, in the order of the table of experiments.
///
/// # Errors
/// Errors of the file system; `InvalidData` for a result that cannot be read.
pub fn read(folder: &Path) -> io::Result<Vec<Results>> {
    let mut found = Vec::new();
    for experiment in experiments::ALL.iter() {
        let path = folder.join(&experiment.name).join("result.json");
        match fs::read_to_string(&path) {
            Ok(text) => found.push(serde_json::from_str(&text).map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidData, format!("'{}': {error}", path.display()))
            })?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Writes the page of all `results` as `report.html` into `folder`.
///
/// # Errors
/// Errors of the file system.
pub fn write_page(results: &[Results], folder: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join("report.html");
    fs::write(&path, page(results))?;
    Ok(path)
}

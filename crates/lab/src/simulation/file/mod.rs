//! Scenarios from files: commented TOML in, a [`Scenario`] out, errors that name the line.
//!
//! | section | content | file |
//! |---|---|---|
//! | `[scenario]` | name, seed, family, duration, sampling | this one |
//! | `[topology]` | a file, a generator or contacts; the properties of its links | [`places`] |
//! | `[[node]]`, `[[link]]` | more of them, or changes to the topology's | [`places`] |
//! | `[[publish]]`, `[[fetch]]`, `[random]`, `[[rival]]`, `[[traffic]]` | the actions of nodes, and their times | [`workload`] |
//! | `[[fault]]` | what breaks, and when it is repaired | [`faults`] |
//! | `[psi]`, `[transfer]`, … | how all nodes work, as in the config of a node | |
//!
//! ```
//! use tributary_lab::simulation::{Simulation, file::ScenarioFile};
//! let text = r#"
//!     [topology]
//!     generate = "tree"
//!     depth = 1
//!     fanout = 2
//!     link = { rate = "20Mbps", delay = "5ms" }
//!     [[publish]]
//!     node = "n1"
//!     name = "/lab/file"
//!     size = "1MB"
//!     [[fetch]]
//!     node = "n2"
//!     name = "/lab/file"
//! "#;
//! let file = ScenarioFile::parse("tree.toml", text, ".".as_ref(), None).unwrap();
//! assert!(Simulation::run(&file.scenario).unwrap().is_complete());
//!
//! let wrong = text.replace("node = \"n2\"", "node = \"n3\"");
//! let error = ScenarioFile::parse("tree.toml", &wrong, ".".as_ref(), None).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "tree.toml:12:12: there is no node 'n3'\n  hint: did you mean 'n0'?"
//! );
//! ```
mod faults;
mod places;
mod rivals;
mod set;
mod values;
mod workload;

use std::path::Path;
use tributary_core::Time;

use self::{places::Places, values::Head};
use super::{Scenario, ScenarioError};
use tributary::{
    ApiError,
    config::{ConfigErrors, reader::Section, values::document},
};

pub use rivals::{RIVALS, RivalSpec};
pub use set::Setting;

/// The contents of a scenario file.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// The scenario.
    pub scenario: Scenario,
    /// Downloads of rivals; a caller with their code adds them to the scenario.
    pub rivals: Vec<RivalSpec>,
    /// Omitted parts of files that it names, and the reasons.
    pub notes: Vec<String>,
}

/// The maximum size of a scenario file in bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

impl ScenarioFile {
    /// Reads a file; paths in it are relative to its folder. `seed` overrides the file's own.
    ///
    /// # Errors
    /// [`FileError`] if it cannot be read, or with all errors in it.
    pub fn load(path: &Path, seed: Option<u64>) -> Result<ScenarioFile, FileError> {
        ScenarioFile::load_with(path, seed, &[])
    }
    /// The same with values that replace the file's; errors then name the lines of the file as it would be rewritten.
    ///
    /// # Errors
    /// Errors of [`ScenarioFile::load`], and [`FileError::Setting`] if a value has no place in the file.
    pub fn load_with(path: &Path, seed: Option<u64>, settings: &[Setting]) -> Result<ScenarioFile, FileError> {
        let file = path.display().to_string();
        let unreadable = |reason: String| FileError::Read { path: file.clone(), reason };
        let length = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
        if length > FILE_BYTES_MAX {
            return Err(unreadable(format!("it has {length} bytes; a scenario has at most {FILE_BYTES_MAX}")));
        }
        let mut text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        // Invalid TOML is reported with its line below.
        if let (false, Ok(mut table)) = (settings.is_empty(), toml::from_str::<toml::Table>(&text)) {
            settings.iter().try_for_each(|setting| setting.apply(&mut table)).map_err(FileError::Setting)?;
            text = table.to_string();
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut read = ScenarioFile::parse(&file, &text, folder, seed)?;
        if read.scenario.name.is_empty() {
            read.scenario.name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        }
        Ok(read)
    }
    /// Reads the content of a file. `file` is its name in errors; paths in it are relative to `folder`.
    ///
    /// # Errors
    /// [`FileError`] with all errors, each with its line.
    pub fn parse(file: &str, text: &str, folder: &Path, seed: Option<u64>) -> Result<ScenarioFile, FileError> {
        let read = document(file, text, |root| Some(read_all(root, folder, seed)))?;
        read.scenario.check()?;
        Ok(read)
    }
}

/// Why a file defines no valid scenario.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read scenario '{path}': {reason}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        reason: String,
    },
    /// A value has no place in it.
    #[error("{0}")]
    Setting(String),
    /// There are mistakes in it.
    #[error(transparent)]
    Wrong(#[from] ConfigErrors),
    /// Each part is right, but they contradict each other.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}
impl From<FileError> for ApiError {
    fn from(error: FileError) -> Self {
        ApiError::usage(error.to_string())
    }
}

fn read_all(root: &Section<'_>, folder: &Path, seed: Option<u64>) -> ScenarioFile {
    let mut head = root.section("scenario").map_or_else(Head::default, values::head);
    head.seed = seed.unwrap_or(head.seed);
    let mut scenario = Scenario::new(&head.name, head.seed);
    scenario.limit = Time::ZERO + head.limit;
    scenario.until = head.until;
    scenario.sampling = head.sampling;
    let mut places = Places::read(root, folder, &head, &mut scenario);
    let mut rivals = Vec::new();
    workload::read(root, &mut places, &mut scenario, &mut rivals);
    faults::read(root, &places, &mut scenario);
    places.settle(root, folder, &head, &mut scenario);
    ScenarioFile { scenario, rivals, notes: places.notes }
}

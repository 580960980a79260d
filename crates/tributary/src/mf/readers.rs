//! Who may look up the names of a node, as people said while it ran: remembered over restarts, because forgetting it would
//! show everybody what was for some.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tributary_content::Name;
use tributary_mf::ids::Guid;
use tributary_net::disk::replace_file;

use crate::error::{ApiError, ErrorKind};

/// The rules of a node: for a name, or (`None`) for itself, who alone may look it up, or (`None`) everybody.
pub(crate) type Rules = BTreeMap<Option<Name>, Option<BTreeSet<Guid>>>;

/// One of them in the file.
#[derive(Serialize, Deserialize)]
struct Rule {
    name: Option<String>,
    readers: Option<Vec<String>>,
}

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("readers.json")
}
/// The rules that are remembered in the folder of a node.
pub(crate) fn load(state_dir: &Path) -> Result<Rules, ApiError> {
    let file = file(state_dir);
    let unreadable = |reason: String| {
        let message = format!("cannot read '{}': {reason}", file.display());
        ApiError::new(ErrorKind::Io, message).with_hint("it says who may look up which name; mend it, or move it away")
    };
    let rules: Vec<Rule> = match fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(ApiError::io("read", file.display(), &error)),
    };
    let parse = |rule: Rule| {
        let name =
            rule.name.map(|name| name.parse().map_err(|_| unreadable(format!("'{name}' is no name")))).transpose()?;
        let guid = |text: &String| text.parse().map_err(|()| unreadable(format!("'{text}' is no GUID")));
        Ok((name, rule.readers.map(|readers| readers.iter().map(guid).collect::<Result<_, _>>()).transpose()?))
    };
    rules.into_iter().map(parse).collect()
}
/// Remembers one more rule. Several clients may say some at once.
pub(crate) fn remember(state_dir: &Path, name: Option<Name>, readers: Option<BTreeSet<Guid>>) -> Result<(), ApiError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut rules = load(state_dir)?;
    rules.insert(name, readers);
    let text = |guids: BTreeSet<Guid>| guids.iter().map(ToString::to_string).collect();
    let rules: Vec<Rule> = rules
        .into_iter()
        .map(|(name, readers)| Rule { name: name.map(|name| name.to_string()), readers: readers.map(text) })
        .collect();
    let file = file(state_dir);
    let bytes = serde_json::to_vec_pretty(&rules).expect("texts can always be written");
    let written = fs::create_dir_all(state_dir).and_then(|()| replace_file(&file, &[&bytes]));
    written.map_err(|error| ApiError::io("write", file.display(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_remembered_and_what_cannot_be_read_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert_eq!(load(&state).unwrap(), Rules::new());
        let name: Name = "/lab/x".parse().unwrap();
        let some: BTreeSet<Guid> = [Guid([7; 20]), Guid([8; 20])].into();
        remember(&state, Some(name.clone()), Some(some.clone())).unwrap();
        remember(&state, None, Some([].into())).unwrap();
        remember(&state, None, None).unwrap();
        assert_eq!(load(&state).unwrap(), Rules::from([(None, None), (Some(name), Some(some))]));
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1, "nothing is left beside it");
        fs::write(file(&state), "[{\"name\":null,\"readers\":[\"x\"]}]").unwrap();
        assert!(load(&state).unwrap_err().to_string().contains("'x' is no GUID"));
    }

    #[test]
    fn of_many_that_are_said_at_once_none_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::thread::scope(|scope| {
            for number in 0..16u8 {
                let name = format!("/lab/{number}").parse().unwrap();
                scope.spawn(move || remember(folder, Some(name), Some([Guid([number; 20])].into())).unwrap());
            }
        });
        assert_eq!(load(folder).unwrap().len(), 16);
    }
}

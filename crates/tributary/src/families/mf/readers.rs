//! Readers of a node's names as commands changed them: remembered over restarts, because forgetting them would make
//! restricted names public.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tributary_content::Name;
use tributary_mf::ids::Guid;
use tributary_net::disk::fs::FileSystem;

use crate::{error::ApiError, state_file::StateFile};

/// The rules of a node: for a name, or (`None`) for its own location, the devices that may look it up, or (`None`) all.
pub(super) type Rules = BTreeMap<Option<Name>, Option<BTreeSet<Guid>>>;

/// A rule in the file.
#[derive(Serialize, Deserialize)]
struct Rule {
    name: Option<String>,
    readers: Option<Vec<String>>,
}

fn file<'a>(fs: &'a dyn FileSystem, state_dir: &Path) -> StateFile<'a> {
    StateFile::new(fs, state_dir, "readers.json", "it lists the readers of names; repair it, or move it away")
}
/// The rules that are remembered in the folder of a node.
pub(super) fn load(fs: &dyn FileSystem, state_dir: &Path) -> Result<Rules, ApiError> {
    let file = file(fs, state_dir);
    let rules: Vec<Rule> = file.read()?;
    let parse = |rule: Rule| {
        let name = rule.name.map(|name| name.parse().map_err(|_| file.unreadable(&format!("'{name}' is no name"))));
        Ok((name.transpose()?, rule.readers.map(|readers| file.guids(&readers)).transpose()?))
    };
    rules.into_iter().map(parse).collect()
}
/// Remembers one more rule, on the disk when it returns. Several clients may add rules at once.
pub(super) fn remember(
    fs: &dyn FileSystem,
    state_dir: &Path,
    name: Option<Name>,
    readers: Option<BTreeSet<Guid>>,
) -> Result<(), ApiError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let mut rules = load(fs, state_dir)?;
    rules.insert(name, readers);
    let text = |guids: BTreeSet<Guid>| guids.iter().map(ToString::to_string).collect();
    let rules: Vec<Rule> = rules
        .into_iter()
        .map(|(name, readers)| Rule { name: name.map(|name| name.to_string()), readers: readers.map(text) })
        .collect();
    file(fs, state_dir).write(&rules)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tributary_net::disk::fs::RealFileSystem;

    use super::*;

    #[test]
    fn rules_are_remembered_and_what_cannot_be_read_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert_eq!(load(&RealFileSystem, &state).unwrap(), Rules::new());
        let name: Name = "/lab/x".parse().unwrap();
        let some: BTreeSet<Guid> = [Guid([7; 20]), Guid([8; 20])].into();
        remember(&RealFileSystem, &state, Some(name.clone()), Some(some.clone())).unwrap();
        remember(&RealFileSystem, &state, None, Some([].into())).unwrap();
        remember(&RealFileSystem, &state, None, None).unwrap();
        assert_eq!(load(&RealFileSystem, &state).unwrap(), Rules::from([(None, None), (Some(name), Some(some))]));
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1, "nothing is left beside it");
        fs::write(state.join("readers.json"), "[{\"name\":null,\"readers\":[\"x\"]}]").unwrap();
        assert!(load(&RealFileSystem, &state).unwrap_err().to_string().contains("'x' is no GUID"));
    }

    #[test]
    fn of_many_that_are_said_at_once_none_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::thread::scope(|scope| {
            for number in 0..16u8 {
                let name = format!("/lab/{number}").parse().unwrap();
                scope.spawn(move || {
                    remember(&RealFileSystem, folder, Some(name), Some([Guid([number; 20])].into())).unwrap()
                });
            }
        });
        assert_eq!(load(&RealFileSystem, folder).unwrap().len(), 16);
    }
}

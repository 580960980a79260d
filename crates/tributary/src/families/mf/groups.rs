//! Groups of a node as commands changed them: kept over restarts, in addition to the config's groups.
use std::{collections::BTreeMap, path::Path};

use tributary_mf::ids::Guid;
use tributary_net::disk::fs::FileSystem;

use crate::{error::ApiError, state_file::StateFile};

/// By label, the members of a group, or (`None`) that the group was removed.
pub(super) type Groups = BTreeMap<String, Option<Vec<Guid>>>;

fn file<'a>(fs: &'a dyn FileSystem, state_dir: &Path) -> StateFile<'a> {
    StateFile::new(fs, state_dir, "groups.json", "it lists the members of groups; repair it, or move it away")
}
/// Loads the groups from the state folder.
pub(super) fn load(fs: &dyn FileSystem, state_dir: &Path) -> Result<Groups, ApiError> {
    let file = file(fs, state_dir);
    let groups: BTreeMap<String, Option<Vec<String>>> = file.read()?;
    let parse = |(label, members): (String, Option<Vec<String>>)| {
        Ok((label, members.map(|members| file.guids(&members)).transpose()?))
    };
    groups.into_iter().map(parse).collect()
}
/// Stores a changed group; it is on the disk when this returns. One at a time.
pub(super) fn remember(
    fs: &dyn FileSystem,
    state_dir: &Path,
    label: String,
    members: Option<Vec<String>>,
) -> Result<(), ApiError> {
    let text = |members: Vec<Guid>| members.iter().map(ToString::to_string).collect();
    let known = load(fs, state_dir)?.into_iter().map(|(label, members)| (label, members.map(text)));
    let mut groups: BTreeMap<String, Option<Vec<String>>> = known.collect();
    groups.insert(label, members);
    file(fs, state_dir).write(&groups)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tributary_net::disk::fs::RealFileSystem;

    use super::*;

    #[test]
    fn groups_are_remembered_and_so_is_that_one_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert_eq!(load(&RealFileSystem, &state).unwrap(), Groups::new());
        let members = [Guid([7; 20]), Guid([8; 20])];
        remember(&RealFileSystem, &state, "a".into(), Some(members.iter().map(ToString::to_string).collect())).unwrap();
        remember(&RealFileSystem, &state, "b".into(), Some(Vec::new())).unwrap();
        remember(&RealFileSystem, &state, "b".into(), None).unwrap();
        assert_eq!(
            load(&RealFileSystem, &state).unwrap(),
            Groups::from([("a".into(), Some(members.into())), ("b".into(), None)])
        );
        fs::write(state.join("groups.json"), "{\"a\":[\"x\"]}").unwrap();
        assert!(load(&RealFileSystem, &state).unwrap_err().to_string().contains("'x' is no GUID"));
    }
}

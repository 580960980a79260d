//! Who belongs to the groups of a node, as people said while it ran: remembered over restarts, beside what its config says.
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use tributary_mf::ids::Guid;
use tributary_net::disk::replace_file;

use crate::error::{ApiError, ErrorKind};

/// By label, the members of a group, or (`None`) that there is none of this label.
pub(crate) type Groups = BTreeMap<String, Option<Vec<Guid>>>;

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("groups.json")
}
/// What is remembered in the folder of a node.
pub(crate) fn load(state_dir: &Path) -> Result<Groups, ApiError> {
    let file = file(state_dir);
    let unreadable = |reason: String| {
        let message = format!("cannot read '{}': {reason}", file.display());
        ApiError::new(ErrorKind::Io, message).with_hint("it says who belongs to which group; mend it, or move it away")
    };
    let groups: BTreeMap<String, Option<Vec<String>>> = match fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => return Err(ApiError::io("read", file.display(), &error)),
    };
    let guid = |text: &String| text.parse().map_err(|()| unreadable(format!("'{text}' is no GUID")));
    let parse = |(label, members): (String, Option<Vec<String>>)| {
        Ok((label, members.map(|members| members.iter().map(guid).collect::<Result<_, _>>()).transpose()?))
    };
    groups.into_iter().map(parse).collect()
}
/// Remembers what was said of one more of them; one at a time.
pub(crate) fn remember(state_dir: &Path, label: String, members: Option<Vec<String>>) -> Result<(), ApiError> {
    let text = |members: Vec<Guid>| members.iter().map(ToString::to_string).collect();
    let known = load(state_dir)?.into_iter().map(|(label, members)| (label, members.map(text)));
    let mut groups: BTreeMap<String, Option<Vec<String>>> = known.collect();
    groups.insert(label, members);
    let file = file(state_dir);
    let bytes = serde_json::to_vec_pretty(&groups).expect("texts can always be written");
    let written = fs::create_dir_all(state_dir).and_then(|()| replace_file(&file, &[&bytes]));
    written.map_err(|error| ApiError::io("write", file.display(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_remembered_and_so_is_that_one_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert_eq!(load(&state).unwrap(), Groups::new());
        let members = [Guid([7; 20]), Guid([8; 20])];
        remember(&state, "a".into(), Some(members.iter().map(ToString::to_string).collect())).unwrap();
        remember(&state, "b".into(), Some(Vec::new())).unwrap();
        remember(&state, "b".into(), None).unwrap();
        assert_eq!(load(&state).unwrap(), Groups::from([("a".into(), Some(members.into())), ("b".into(), None)]));
        fs::write(file(&state), "{\"a\":[\"x\"]}").unwrap();
        assert!(load(&state).unwrap_err().to_string().contains("'x' is no GUID"));
    }
}

//! A config that is read again while its node runs: what can change does, and what cannot is named.
use std::collections::BTreeSet;

use tributary_content::Name;

use crate::{
    config::{FaceConfig, NodeConfig, PublishConfig},
    error::{ApiError, ErrorKind},
    local::LocalApi,
    registry,
    running::face_id,
};

impl LocalApi {
    /// Goes over to a newer config of the same node: what is published, neighbours, readers, groups and the rate limit change
    /// now. Gives in words what has changed, and what will only with the next start. What cannot be published leaves everything as it
    /// was.
    ///
    /// # Errors
    /// [`ApiError`] names what of the new config cannot be.
    pub fn reload(&self, new: NodeConfig) -> Result<Vec<String>, ApiError> {
        let mut new = new;
        registry::identify(&mut new, self.key());
        let mut now = self.current();
        new.ndn.epoch = now.ndn.epoch;
        let mut told = self.republish(&now, &new)?;
        told.extend(self.change_rules(&now, &new)?);
        if may_change_faces(&now, &new) {
            told.extend(self.running().change_neighbours(&new)?);
        }
        if now.limits.rate != new.limits.rate {
            let rate = new.limits.rate;
            self.running().call(move |node, at| node.limit(at, None, rate))?;
            told.push("the rate limit".into());
        }
        let waiting = waiting(&now, &new);
        // What waits for a restart stays as it is, so that it is named again each time.
        if may_change_faces(&now, &new) {
            now.faces = new.faces;
        }
        now.publish = new.publish;
        (now.mf.readers, now.mf.groups) = (new.mf.readers, new.mf.groups);
        (now.limits.rate, now.log) = (new.limits.rate, new.log);
        drop(now);
        if told.is_empty() {
            told.push("nothing that can change while it runs".into());
        }
        let mut told = vec![format!("reloaded: {}", told.join(", "))];
        if !waiting.is_empty() {
            told.push(format!("changed in the config, and in force only after a restart: {}", waiting.join(", ")));
        }
        Ok(told)
    }

    /// Publishes what is new or has changed in the config or on the disk, and withdraws what is not in the config any more.
    fn republish(&self, now: &NodeConfig, new: &NodeConfig) -> Result<Vec<String>, ApiError> {
        let is_as_before = |entry: &PublishConfig| now.publish.contains(entry) && self.is_unchanged(&entry.name);
        let mut opened = Vec::new();
        for entry in new.publish.iter().filter(|entry| !is_as_before(entry)) {
            opened.push((entry, self.open_object(&entry.path, entry.name.clone(), entry.version)?));
        }
        let room = self.config().limits.publications;
        if new.publish.len() > room {
            let message = format!("the config publishes {} objects, {room} are allowed", new.publish.len());
            return Err(ApiError::new(ErrorKind::Usage, message).with_hint("raise 'publications' in [limits]"));
        }
        let mut told = Vec::new();
        for (entry, (publication, _)) in opened {
            self.offer(publication)?;
            told.push(format!("'{}' is published anew", entry.name));
        }
        let names: BTreeSet<&Name> = new.publish.iter().map(|entry| &entry.name).collect();
        for entry in now.publish.iter().filter(|entry| !names.contains(&entry.name)) {
            self.withdraw(&entry.name)?;
            told.push(format!("'{}' is withdrawn", entry.name));
        }
        Ok(told)
    }
    /// Changes who may look up names, and who belongs to groups, where the config says so.
    fn change_rules(&self, now: &NodeConfig, new: &NodeConfig) -> Result<Vec<String>, ApiError> {
        let mut told = Vec::new();
        let names: BTreeSet<_> = now.mf.readers.keys().chain(new.mf.readers.keys()).collect();
        for name in names {
            let readers = new.mf.readers.get(name);
            if now.mf.readers.get(name) != readers {
                let of = name.as_ref().map(ToString::to_string);
                let guids = readers.map(|guids| guids.iter().map(ToString::to_string).collect());
                told.push(of.as_ref().map_or("readers of the device".into(), |name| format!("readers of '{name}'")));
                self.set_readers(of, guids)?;
            }
        }
        let labels: BTreeSet<_> = now.mf.groups.keys().chain(new.mf.groups.keys()).collect();
        for label in labels {
            let group = new.mf.groups.get(label);
            if now.mf.groups.get(label) != group {
                let members = group.map(|group| group.members.iter().map(ToString::to_string).collect::<Vec<_>>());
                self.set_group(label, members)?;
                told.push(format!("the group '{label}'"));
            }
        }
        Ok(told)
    }
}

/// Whether neighbours can come and go while a node runs. What NDN's `[[face]]` says of routes and links a node is told when it
/// starts, and new addresses of its own are opened then.
fn may_change_faces(now: &NodeConfig, new: &NodeConfig) -> bool {
    new.family != registry::Family::Ndn && now.family == new.family && now.listen == new.listen
}

/// The sections and keys that differ and are looked at only when a node starts.
fn waiting(now: &NodeConfig, new: &NodeConfig) -> Vec<&'static str> {
    let alike = |config: &NodeConfig| {
        let mut mf = config.mf.clone();
        (mf.readers, mf.groups, mf.weights) = Default::default();
        let mut limits = config.limits.clone();
        limits.rate = None;
        (mf, limits)
    };
    let ((now_mf, now_limits), (new_mf, new_limits)) = (alike(now), alike(new));
    let changes = [
        (now.label != new.label, "'label'"),
        (now.family != new.family, "'family'"),
        (now.roles != new.roles, "'roles'"),
        (now.state_dir != new.state_dir, "'state_dir'"),
        (now.control != new.control, "'control'"),
        (now.key != new.key, "'key'"),
        (now.seed != new.seed, "'seed'"),
        (now.listen != new.listen || now.listen_streams != new.listen_streams, "'listen'"),
        (now.web_origins != new.web_origins, "'web_origins'"),
        (now.faces != new.faces && !may_change_faces(now, new), "[[face]]"),
        (weights(now) != weights(new), "'weight' of [[face]]"),
        (now.psi != new.psi && now.roles == new.roles, "[psi] or [transfer]"),
        (now.ndn != new.ndn && now.faces == new.faces, "[ndn] or [transfer]"),
        (now_mf != new_mf && now.faces == new.faces && now.roles == new.roles, "[mf]"),
        (now.fetch != new.fetch, "[transfer]"),
        (now_limits != new_limits, "[limits] other than 'rate'"),
        (now.faults != new.faults, "[faults]"),
    ];
    let of_family = |what: &str| match what {
        "'weight' of [[face]]" => new.family == registry::Family::Mf,
        "[psi] or [transfer]" => new.family == registry::Family::Psi,
        "[ndn] or [transfer]" => new.family == registry::Family::Ndn,
        "[mf]" => new.family == registry::Family::Mf,
        _ => true,
    };
    changes.into_iter().filter(|(is_changed, what)| *is_changed && of_family(what)).map(|(_, what)| what).collect()
}

/// What MobilityFirst's accesses are worth, by their neighbours.
fn weights(config: &NodeConfig) -> Vec<(String, u8)> {
    let weight =
        |(index, face): (usize, &FaceConfig)| Some((face.peer.to_string(), *config.mf.weights.get(&face_id(index))?));
    config.faces.iter().enumerate().filter_map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> NodeConfig {
        let text = format!("[node]\nlabel = \"a\"\nroles = [\"sender\"]\nlisten = [\"0.0.0.0:0\"]\n{more}");
        NodeConfig::parse("a.toml", &text, "/etc".as_ref()).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn what_only_a_restart_changes_is_named_and_the_rest_is_not() {
        let now = config("");
        for (more, waits) in [
            ("[limits]\nrate = \"1Mbps\"\n", &[][..]),
            ("[[publish]]\nname = \"/a\"\npath = \"a\"\n", &[]),
            ("[limits]\ntransfers = 3\n", &["[limits] other than 'rate'"]),
            ("[[face]]\npeer = \"192.0.2.1:1\"\n", &[]),
            ("[psi]\nlease = \"9s\"\n", &["[psi] or [transfer]"]),
        ] {
            assert_eq!(waiting(&now, &config(more)), waits, "{more}");
        }
    }
}

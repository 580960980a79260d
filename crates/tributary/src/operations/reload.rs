//! Reloads a config while its node runs: applies the changes that it can, and names those that need a restart.
use std::collections::{BTreeMap, BTreeSet};

use tributary_content::Name;

use crate::{
    config::{NodeConfig, PublishConfig, Settings},
    error::ApiError,
    families::{NameRule, OtherChanges, Resolution},
    node::{LocalNode, membership, peer_keys::PeerKeys},
};

impl LocalNode {
    /// Applies a newer config of the same node: publications, neighbours, readers, groups, the rate limit, the
    /// certificate and the revocations change now. Returns sentences about the changes, and about those that need a
    /// restart. If one publication fails, nothing changes.
    ///
    /// # Errors
    /// [`ApiError`] names the part of the new config that cannot be applied.
    pub(crate) fn reload(&self, new: NodeConfig) -> Result<Vec<String>, ApiError> {
        let (node, mut new) = (self, new);
        new.settings.of_family_mut().identify(&node.key, &new.label);
        if node.config.network.is_some() {
            new.settings.of_family_mut().certify(&node.key.public());
        }
        PeerKeys::open(&new, membership::time_of_day())?;
        let mut now = node.current.lock();
        new.settings.of_family_mut().continue_run(&now.settings);
        let mut done = node.republish(&now, &new)?;
        done.extend(node.change_rules(&now, &new)?);
        let changes_faces = may_change_faces(&now, &new);
        if changes_faces {
            done.extend(node.runtime.change_neighbours(&new)?);
            node.apply_policies();
            let policies =
                |config: &NodeConfig| config.faces.iter().map(|face| face.policy.clone()).collect::<Vec<_>>();
            if policies(&now) != policies(&new) {
                done.push("the policies of faces".into());
            }
            let labels = |config: &NodeConfig| config.faces.iter().map(|face| face.label.clone()).collect::<Vec<_>>();
            if labels(&now) != labels(&new) {
                done.push("the labels of faces".into());
            }
        }
        if now.limits.rate != new.limits.rate {
            let rate = new.limits.rate;
            node.runtime.call(move |node, at| node.limit(at, None, rate))?;
            done.push("the rate limit".into());
        }
        done.extend(node.renew_identity(&now, &new)?);
        let waiting = waiting(&now, &new);
        // Settings that need a restart stay unchanged, so that they are named again each time.
        if changes_faces {
            now.faces = new.faces;
        }
        if now.network.is_some() == new.network.is_some() {
            now.network = new.network;
        }
        (now.publish, now.key_groups, now.blind) = (new.publish, new.key_groups, new.blind);
        now.settings.of_family_mut().adopt_rules(&new.settings);
        (now.limits.rate, now.log, now.log_format) = (new.limits.rate, new.log, new.log_format);
        drop(now);
        if done.is_empty() {
            done.push("nothing that can change while it runs".into());
        }
        let mut done = vec![format!("reloaded: {}", done.join(", "))];
        if !waiting.is_empty() {
            done.push(format!("changed in the config, and in force only after a restart: {}", waiting.join(", ")));
        }
        Ok(done)
    }
    /// Publishes entries that are new or have changed in the config or on the disk, and withdraws those that the config
    /// no longer lists.
    fn republish(&self, now: &NodeConfig, new: &NodeConfig) -> Result<Vec<String>, ApiError> {
        let before: BTreeMap<&Name, &PublishConfig> = now.publish.iter().map(|entry| (&entry.name, entry)).collect();
        let is_as_before =
            |entry: &PublishConfig| before.get(&entry.name) == Some(&entry) && self.is_unchanged(&entry.name);
        let mut opened = Vec::new();
        for entry in new.publish.iter().filter(|entry| !is_as_before(entry)) {
            let of = (&entry.readers[..], &entry.mirrors[..]);
            opened.push((entry, self.open_object(&entry.path, entry.name.clone(), entry.version, of)?));
        }
        let room = self.config.limits.publications;
        if new.publish.len() > room {
            let message = format!("the config publishes {} objects, {room} are allowed", new.publish.len());
            return Err(ApiError::usage(message).with_hint("raise 'publications' in [limits]"));
        }
        let mut done = Vec::new();
        for (entry, (publication, _)) in opened {
            self.offer(publication)?;
            done.push(format!("'{}' is published again", entry.name));
        }
        let names: BTreeSet<&Name> = new.publish.iter().map(|entry| &entry.name).collect();
        for entry in now.publish.iter().filter(|entry| !names.contains(&entry.name)) {
            self.withdraw(&entry.name)?;
            done.push(format!("'{}' is withdrawn", entry.name));
        }
        Ok(done)
    }
    /// Reads certificate and revocations again, which may have changed while the config did not.
    fn renew_identity(&self, now: &NodeConfig, new: &NodeConfig) -> Result<Option<String>, ApiError> {
        if now.network.is_none() {
            return Ok(None);
        }
        let Some(identity) = membership::load(new, &self.key)? else { return Ok(None) };
        membership::warnings(new, &identity).iter().for_each(|warning| self.runtime.events.note(warning));
        let number = identity.network().revocations().map_or(0, |list| list.number());
        let serial = identity.certificate().map_or("no certificate".into(), |certificate| {
            format!("certificate {} until {}", certificate.terms().serial, certificate.terms().not_after)
        });
        self.runtime.call(move |node, at| node.set_identity(at, &identity))?;
        Ok(Some(format!("{serial}, revocations number {number}")))
    }
    /// Changes readers and groups where the config changed them.
    fn change_rules(&self, now: &NodeConfig, new: &NodeConfig) -> Result<Vec<String>, ApiError> {
        let mut changed = Vec::new();
        for rule in now.settings.of_family().changed_rules(&new.settings) {
            match rule {
                NameRule::Readers { name, readers } => {
                    let of = name.as_ref().map(ToString::to_string);
                    changed.push(
                        of.as_ref().map_or("readers of the device".into(), |name| format!("readers of '{name}'")),
                    );
                    self.set_readers(of, readers)?;
                }
                NameRule::Group { label, members } => {
                    self.set_group(&label, members)?;
                    changed.push(format!("the group '{label}'"));
                }
            }
        }
        Ok(changed)
    }
}

/// Whether neighbours can be added and removed while a node runs. A family whose faces have routes gets these at the
/// start; and a node's own addresses are opened then.
fn may_change_faces(now: &NodeConfig, new: &NodeConfig) -> bool {
    let has_routes = new.family().profile().resolution == Resolution::Routes;
    !has_routes && now.family() == new.family() && now.listen == new.listen
}

/// The sections and keys that differ and take effect only when a node starts.
fn waiting(now: &NodeConfig, new: &NodeConfig) -> Vec<&'static str> {
    let limits = |config: &NodeConfig| {
        let mut limits = config.limits.clone();
        limits.rate = None;
        limits
    };
    let before = match now.family() == new.family() {
        true => now.settings.clone(),
        false => Settings::new(new.family(), &now.label, &now.roles),
    };
    let faces = now.faces != new.faces && !may_change_faces(now, new);
    let elsewhere = OtherChanges { roles: now.roles != new.roles, faces };
    let changes = [
        (now.label != new.label, "'label'"),
        (now.family() != new.family(), "'family'"),
        (elsewhere.roles, "'roles'"),
        (now.state_dir != new.state_dir, "'state_dir'"),
        (now.control != new.control, "'control'"),
        (now.key != new.key, "'key'"),
        (now.seed != new.seed, "'seed'"),
        (now.listen != new.listen || now.listen_streams != new.listen_streams, "'listen'"),
        (now.unix_access != new.unix_access, "'unix_mode' and 'unix_group'"),
        (now.web_origins != new.web_origins, "'web_origins'"),
        (now.ecn != new.ecn, "'ecn'"),
        (now.trust != new.trust, "[[trust]]"),
        (elsewhere.faces, "[[face]]"),
        (now.fetch != new.fetch, "[transfer]"),
        (limits(now) != limits(new), "[limits] other than 'rate'"),
        (now.faults != new.faults, "[faults]"),
        (now.network.is_some() != new.network.is_some(), "[network]"),
        (now.resolver != new.resolver, "[resolver]"),
    ];
    let changed = changes.into_iter().filter(|(is_changed, _)| *is_changed).map(|(_, what)| what);
    changed.chain(new.settings.of_family().waiting(&before, elsewhere)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> NodeConfig {
        let text = format!("[node]\nlabel = \"a\"\nroles = [\"sender\"]\nlisten = [\"0.0.0.0:0\"]\n{more}");
        NodeConfig::parse("a.toml", &text, "/etc".as_ref()).unwrap_or_else(|errors| panic!("{errors}"))
    }

    const TRUST: &str = "[[trust]]\nprefix = \"/a\"\n\
        publisher = \"ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\"\n";

    #[test]
    fn what_only_a_restart_changes_is_named_and_the_rest_is_not() {
        let now = config("");
        for (more, waits) in [
            ("[limits]\nrate = \"1Mbps\"\n", &[][..]),
            ("[[publish]]\nname = \"/a\"\npath = \"a\"\n", &[]),
            (TRUST, &["[[trust]]"]),
            ("[limits]\ntransfers = 3\n", &["[limits] other than 'rate'"]),
            ("[[face]]\npeer = \"192.0.2.1:1\"\n", &[]),
            ("[psi]\nlease = \"9s\"\n", &["[psi] or [transfer]"]),
        ] {
            assert_eq!(waiting(&now, &config(more)), waits, "{more}");
        }
    }
}

//! Reads the config file of a node: commented TOML in, a checked config out, errors that name the line.
mod publications;
mod resolver;
mod sections;

use std::{collections::BTreeSet, path::Path};
use tributary_core::Ecn;
use tributary_transport::TransferConfig;
use tributary_trust::Roles;

use self::{publications::Publications, sections::Disk};
use crate::{
    config::{
        ConfigErrors, FILE_BYTES_MAX, FaceConfig, Invitation, LoadError, NetworkConfig, NodeConfig, Role, Security,
        Settings, SiteConfig,
        reader::{Scope, Section},
        values::document,
    },
    error::ApiError,
    family::Family,
};

impl NodeConfig {
    /// Reads and checks a config file; relative paths in it start at its folder.
    ///
    /// # Errors
    /// [`LoadError`] if the file cannot be read, or with all its mistakes.
    pub fn load(path: &Path) -> Result<NodeConfig, LoadError> {
        let unreadable = |reason: String| LoadError::Read { path: path.display().to_string(), reason };
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        let length = metadata.len();
        if length > FILE_BYTES_MAX {
            return Err(unreadable(format!("it has {length} bytes; a config has at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = std::path::absolute(folder).map_err(|error| unreadable(error.to_string()))?;
        Ok(read(&path.display().to_string(), &text, &folder, Disk::Looked)?)
    }
    /// Checks the content of a config file, but not whether its publications exist. Errors call the file `file`;
    /// relative paths start at `folder`.
    ///
    /// # Errors
    /// [`ConfigErrors`] with every mistake, each with its line.
    pub fn parse(file: &str, text: &str, folder: &Path) -> Result<NodeConfig, ConfigErrors> {
        read(file, text, folder, Disk::NotLooked)
    }
    /// Sets `text`, an address or an invitation, as the neighbour of the only `[[face]]`, whose other settings stay. If
    /// `text` has no port or scheme, the config's are used.
    ///
    /// # Errors
    /// [`ApiError`] states why it cannot be used.
    pub fn set_peer(&mut self, text: &str) -> Result<(), ApiError> {
        let wrong = |reason: String| ApiError::usage(reason);
        let framing = self.family().framing();
        let faces = self.faces.len();
        let [face] = &mut self.faces[..] else {
            let reason = "[[face]] sections, and exactly one can be given another peer";
            return Err(wrong(format!("the config has {faces} {reason}")));
        };
        let invitation = Invitation::read(text, |address| face.peer.replaced(address));
        let invitation = invitation.map_err(|error| wrong(error.to_string()))?;
        NetworkConfig::join(&mut self.network, &invitation, (self.settings.family(), &self.state_dir))
            .map_err(|error| wrong(error.to_string()))?;
        let Invitation { address: peer, key, until, .. } = invitation;
        if peer.is_stream() != face.peer.is_stream() || peer.is_stream() && framing.is_none() {
            return Err(wrong(format!("'{text}' would be reached in another way than {}", face.peer)));
        }
        if key.is_some() && face.security == Security::None {
            let reason = "the [[face]] has security = \"none\", so that nobody proves a key there";
            return Err(wrong(reason.into()));
        }
        let security = sections::secured(face.security, key.as_ref());
        let replaced =
            FaceConfig { peer, peer_key: key.or(face.peer_key), invited_until: until, security, ..face.clone() };
        if let Some((reason, hint)) = sections::unreachable(&replaced, &self.listen) {
            return Err(wrong(reason).with_hint(hint));
        }
        *face = replaced;
        Ok(())
    }
    /// Makes its gateway a member of a site. Other members may announce copies of its origins to the node.
    pub fn join_site(&mut self, site: SiteConfig) {
        let Some(http) = &mut self.http else { return };
        let names: Vec<_> = http.origins.iter().map(|origin| origin.name.clone()).collect();
        http.site = Some(site);
        self.settings.of_family_mut().expect_site(&names);
    }
    /// Reads the sections about a node's behaviour; labels and addresses are read elsewhere. Files are relative to
    /// `folder`.
    pub fn read_behaviour(&mut self, section: &Section<'_>, scope: Scope, folder: &Path) {
        self.read_sections(section, (scope == Scope::Node).then_some(self.family()), scope, folder);
    }
    /// The same. `only` is the one family whose section is allowed; `None` allows all, for nodes of several families.
    fn read_sections(&mut self, root: &Section<'_>, only: Option<Family>, scope: Scope, folder: &Path) {
        for (key, of) in Family::ALL {
            if let Some(family) = only.filter(|family| *family != of && root.has(key)) {
                let hint = format!("remove the section, or write family = \"{of}\" in [node]");
                root.wrong(key, format!("family {family} has no [{key}]"), hint);
            }
            let Some(section) = root.section(key) else { continue };
            match of == self.family() {
                true => self.settings.of_family_mut().read(&section, scope, folder),
                // Mistakes in it are reported even if no key of the file names the section's owner.
                false => self.defaults_of(of).of_family_mut().read(&section, scope, folder),
            }
            section.finish();
        }
        if let Some(section) = root.section("transfer") {
            let mut unused = TransferConfig::default();
            let transfer = self.settings.of_family_mut().transfer_mut().unwrap_or(&mut unused);
            if let Some(ecn) = section.choice("ecn", &Ecn::ALL) {
                self.ecn = ecn;
            }
            sections::transfer(section, transfer, &mut self.fetch);
            self.settings.of_family_mut().set_ecn(self.ecn);
        }
        if let Some(section) = root.section("limits") {
            self.limits = sections::limits(section);
        }
        if let Some(section) = root.section("faults") {
            self.faults = sections::faults(section);
        }
    }
    fn defaults_of(&self, family: Family) -> Settings {
        Settings::new(family, &self.label, &self.roles)
    }
    /// Legal settings that should still be changed, each in a sentence that explains the change.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.settings.of_family().warnings(self);
        let has_roles = self.roles.iter().any(|role| role.certified() != Roles::HOST);
        if self.network.is_none() && has_roles && !(self.faces.is_empty() && self.listen.is_empty()) {
            warnings.push(NO_AUTHORITY.into());
        }
        if let Some(http) = self.http.as_ref().filter(|http| http.api && http.token_file.is_none())
            && !http.listen.ip().is_loopback()
        {
            warnings.push(format!(
                "[http] listens on {}, which other machines may reach: API, dashboard and metrics answer nobody there \
                 without a token; set 'token_file', or api = false",
                http.listen
            ));
        }
        warnings.extend(self.resolver.warning());
        warnings
    }
}

/// What a network without an authority does not protect.
const NO_AUTHORITY: &str = "the network has no authority, which suits a demonstration: whoever reaches a node may take any \
    role (router, resolver, topology manager) and claim any name; make an authority with `trib network new`, and write its \
    key into [network]";

/// Reads the complete file.
fn read(file: &str, text: &str, folder: &Path, disk: Disk) -> Result<NodeConfig, ConfigErrors> {
    document(file, text, |root| read_all(root, folder, disk))
}

fn read_all(root: &Section<'_>, folder: &Path, disk: Disk) -> Option<NodeConfig> {
    let section = root.section("node");
    if section.is_none() {
        let hint = "start with [node], label = \"my-node\", roles = [\"receiver\"], listen = [\"0.0.0.0:0\"]";
        root.missing("[node]", hint);
    }
    let head = section.and_then(|section| sections::head(section, folder, root.has("network")));
    let is_whole = head.is_some();
    // Sections are read even if [node] is wrong, so that one run shows all mistakes.
    let mut node = head.unwrap_or_else(|| {
        let settings = Settings::new(Family::default(), "", &BTreeSet::new());
        NodeConfig::new("", settings, BTreeSet::new(), folder)
    });
    let family = node.family();
    for section in root.sections("blind") {
        sections::blind(section, folder, &mut node.blind);
    }
    for section in root.sections("trust") {
        sections::trust(section, &node.blind, &mut node.trust);
    }
    for section in root.sections("key_group") {
        sections::key_group(section, &mut node.key_groups);
    }
    let is_sender = !is_whole || node.has_role(Role::Sender);
    let publications = Publications { folder, disk, key_groups: &node.key_groups, blind: &node.blind, is_sender };
    node.publish = publications.read(root.sections("publish"));
    node.serve = root.section("serve").map(sections::serve).unwrap_or_default();
    node.mirrors = root.section("mirrors").map(sections::mirrors).unwrap_or_default();
    for of in Family::all() {
        match of == family {
            true => node.settings.of_family_mut().read_lists(root, folder, None),
            false => node.defaults_of(of).of_family_mut().read_lists(root, folder, Some(family)),
        }
    }
    node.read_sections(root, is_whole.then_some(family), Scope::Node, folder);
    publications::must_fit(root, &node.publish, &node.limits);
    node.network = root.section("network").and_then(|section| sections::network(section, folder, &node));
    for section in root.sections("face") {
        let face = sections::face(section, folder, &mut node);
        node.faces.extend(face);
    }
    node.http = root.section("http").and_then(|section| sections::http(section, folder, &node.state_dir));
    let origins = root.sections("origin").into_iter().filter_map(sections::origin).collect();
    match &mut node.http {
        Some(http) => http.origins = origins,
        None if root.has("origin") && !root.has("http") => {
            let hint = "add [http] with the address that clients use, such as listen = \"127.0.0.1:8080\"";
            root.wrong("origin", "[[origin]] needs a gateway", hint);
        }
        None => {}
    }
    if let Some(section) = root.section("site") {
        let site = sections::site(section, node.network.is_some());
        match node.http {
            Some(_) => node.join_site(site),
            None => root.wrong("site", "[site] needs a gateway", "add [http], such as listen = \"127.0.0.1:8080\""),
        }
    }
    let is_resolver = node.has_role(Role::Resolver);
    let resolver = root.section("resolver").map(|section| resolver::resolver(section, folder, family, is_resolver));
    node.resolver = resolver.unwrap_or_default();
    is_whole.then_some(node)
}

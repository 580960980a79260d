//! Reads the config file of a node: commented TOML in, a checked config out, errors that name the line.
mod resolver;
mod sections;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use tributary_content::{BlindingKey, Name, PublicKey};
use tributary_transport::TransferConfig;
use tributary_trust::{Keys, Roles};

use self::sections::Disk;
use crate::{
    config::{
        ConfigErrors, FILE_BYTES_MAX, FaceConfig, Faults, FetchConfig, Invitation, Limits, LoadError, NetworkConfig,
        NodeConfig, PublishConfig, Role, Security, Settings, Wrapper,
        reader::{Scope, Section},
        values::document,
    },
    error::{ApiError, ErrorKind},
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
        let wrong = |reason: String| ApiError::new(ErrorKind::Usage, reason);
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
    /// Reads the sections about a node's behaviour; labels and addresses are read elsewhere. Files are relative to
    /// `folder`.
    pub fn read_behaviour(&mut self, section: &Section<'_>, scope: Scope, folder: &Path) {
        let only = (scope == Scope::Node).then_some(self.family());
        let NodeConfig { label, roles, settings, fetch, limits, faults, .. } = self;
        Behaviour { settings, fetch, limits, faults }.read(section, (label, roles), only, scope, folder);
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
    let node = root.section("node");
    let has_network = root.has("network");
    if node.is_none() {
        let hint = "start with [node], label = \"my-node\", roles = [\"receiver\"], listen = [\"0.0.0.0:0\"]";
        root.missing("[node]", hint);
    }
    let head = node.and_then(|section| sections::head(section, folder, has_network));
    let is_sender = head.as_ref().is_none_or(|head| head.roles.contains(&Role::Sender));
    let Names { blind, trust, key_groups, publish } = Names::read(root, folder, disk, is_sender);
    // Sections are read even if [node] is wrong, so that one run shows all mistakes.
    let listen = head.as_ref().map_or(&[][..], |head| &head.listen);
    let family = head.as_ref().map_or_else(Family::default, |head| head.family);
    let (label, roles) = head.as_ref().map_or(("", BTreeSet::new()), |head| (&head.label, head.roles.clone()));
    let mut settings = Settings::new(family, label, &roles);
    let (mut fetch, mut limits, mut faults) = (FetchConfig::default(), Limits::default(), Faults::default());
    let serve = root.section("serve").map(sections::serve).unwrap_or_default();
    let mirrors = root.section("mirrors").map(sections::mirrors).unwrap_or_default();
    for of in Family::all() {
        match of == family {
            true => settings.of_family_mut().read_lists(root, folder, None),
            false => Settings::new(of, label, &roles).of_family_mut().read_lists(root, folder, Some(family)),
        }
    }
    let only = head.as_ref().map(|head| head.family);
    let mut behaviour =
        Behaviour { settings: &mut settings, fetch: &mut fetch, limits: &mut limits, faults: &mut faults };
    behaviour.read(root, (label, &roles), only, Scope::Node, folder);
    let (state_dir, security) =
        head.as_ref().map_or((folder, Security::Encrypted), |head| (&head.state_dir, head.security));
    let mut network =
        root.section("network").and_then(|section| sections::network(section, folder, state_dir, security));
    let mut faces: Vec<FaceConfig> = Vec::new();
    let publishes = roles.contains(&Role::Sender);
    for section in root.sections("face") {
        let of_family = settings.of_family_mut();
        let joined = (&mut network, state_dir);
        let face = sections::face(section, listen, folder, (family, publishes, security), joined, of_family, &faces);
        faces.extend(face);
    }
    let http = root.section("http").and_then(|section| sections::http(section, folder, state_dir));
    let is_resolver = roles.contains(&Role::Resolver);
    let resolver = root.section("resolver").map(|section| resolver::resolver(section, folder, family, is_resolver));
    let head = head?;
    let store = Some(head.state_dir.join("store"));
    Some(NodeConfig {
        label: head.label,
        roles: head.roles,
        control: head.control,
        key: head.key,
        state_dir: head.state_dir,
        seed: head.seed,
        log: head.log,
        log_format: head.log_format,
        listen: head.listen,
        listen_streams: head.listen_streams,
        unix_access: head.unix_access,
        web_origins: head.web_origins,
        security: head.security,
        network,
        faces,
        blind,
        trust,
        key_groups,
        publish,
        settings,
        store,
        fetch,
        serve,
        mirrors,
        limits,
        faults,
        http,
        resolver: resolver.unwrap_or_default(),
        wrapper: Wrapper::default(),
    })
}

/// The content of the sections about names.
struct Names {
    blind: BTreeMap<Name, BlindingKey>,
    trust: Keys,
    key_groups: BTreeMap<String, Vec<PublicKey>>,
    publish: Vec<PublishConfig>,
}

impl Names {
    fn read(root: &Section<'_>, folder: &Path, disk: Disk, is_sender: bool) -> Names {
        let mut blind = BTreeMap::new();
        for section in root.sections("blind") {
            sections::blind(section, folder, &mut blind);
        }
        let mut trust = Keys::new();
        for section in root.sections("trust") {
            sections::trust(section, &blind, &mut trust);
        }
        let mut key_groups = BTreeMap::new();
        for section in root.sections("key_group") {
            sections::key_group(section, &mut key_groups);
        }
        let mut publish: Vec<PublishConfig> = Vec::new();
        for section in root.sections("publish") {
            let entry = sections::published(section, (folder, disk), is_sender, &publish, (&key_groups, &blind));
            publish.extend(entry);
        }
        Names { blind, trust, key_groups, publish }
    }
}

/// The content of the sections about a node's behaviour.
struct Behaviour<'a> {
    settings: &'a mut Settings,
    fetch: &'a mut FetchConfig,
    limits: &'a mut Limits,
    faults: &'a mut Faults,
}

impl Behaviour<'_> {
    /// Reads them for a node with that label and roles. `only` is the one family whose section is allowed; `None`
    /// allows all, for nodes of several families.
    fn read(
        &mut self,
        root: &Section<'_>,
        (label, roles): (&str, &BTreeSet<Role>),
        only: Option<Family>,
        scope: Scope,
        folder: &Path,
    ) {
        let own = self.settings.family();
        for (key, of) in Family::ALL {
            if let Some(family) = only.filter(|family| *family != of && root.has(key)) {
                let hint = format!("remove the section, or write family = \"{of}\" in [node]");
                root.problem(root.span_of(key), format!("family {family} has no [{key}]"), hint);
            }
            let Some(section) = root.section(key) else { continue };
            match of == own {
                true => self.settings.of_family_mut().read(&section, scope, folder),
                // Mistakes in it are reported even if no key of the file names the section's owner.
                false => Settings::new(of, label, roles).of_family_mut().read(&section, scope, folder),
            }
            section.finish();
        }
        if let Some(section) = root.section("transfer") {
            let mut unused = TransferConfig::default();
            let transfer = self.settings.of_family_mut().transfer_mut().unwrap_or(&mut unused);
            sections::transfer(section, transfer, self.fetch);
        }
        if let Some(section) = root.section("limits") {
            *self.limits = sections::limits(section);
        }
        if let Some(section) = root.section("faults") {
            *self.faults = sections::faults(section);
        }
    }
}

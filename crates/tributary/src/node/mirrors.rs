//! Web servers as sources of a fetch: separate threads run their connections, and the node's thread decides.
use tributary_core::{FaceId, TransferId};
use tributary_transport::{
    bulk::{BulkInput, BulkStep},
    policy::PathDemands,
};
use tributary_web::{ClientOptions, Origin, Uplink, Url, node::Host, s3};

use super::runtime::Remote;
use crate::{
    config::FaceConfig,
    error::{ApiError, spawn},
    request::WebMirrors,
};

/// Mirrors whose options have been checked.
pub(crate) struct Mirrors {
    urls: Vec<Url>,
    options: ClientOptions,
}

impl Mirrors {
    /// Reads the URLs and uplinks. Without uplinks the node's faces are the uplinks.
    ///
    /// # Errors
    /// [`ApiError`] names an invalid address.
    pub(crate) fn new(wanted: &WebMirrors, faces: &[FaceConfig]) -> Result<Mirrors, ApiError> {
        let wrong = |what: &str, why: String| ApiError::usage(format!("cannot use the mirror '{what}': {why}"));
        let url = |text: &String| match text.parse::<Url>() {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
            Ok(url) if url.scheme() == s3::SCHEME => s3::check(&url).map(|()| url).map_err(|why| wrong(text, why)),
            Ok(_) => Err(wrong(text, "it is no address of http, https or s3".into())),
            Err(error) => Err(wrong(text, error.to_string())),
        };
        let uplink = |text: &String| text.parse().map_err(ApiError::usage);
        let mut uplinks: Vec<Uplink> = wanted.interfaces.iter().map(uplink).collect::<Result<_, ApiError>>()?;
        if uplinks.is_empty() {
            uplinks = faces.iter().map(uplink_of).collect();
        }
        Ok(Mirrors {
            urls: wanted.urls.iter().map(url).collect::<Result<_, _>>()?,
            options: ClientOptions {
                uplinks,
                ca_certificates: wanted.ca_certificates.clone(),
                cookies: wanted.cookies.clone(),
                netrc: wanted.netrc.clone(),
                ..ClientOptions::default()
            },
        })
    }
    /// The mirrors that a publisher names. They get no passwords or cookies of this machine, and unless
    /// `may_be_private` they must have public addresses. Requests to them use those of `faces` that the fetch may use.
    ///
    /// # Errors
    /// [`ApiError`] names an address that is not http or https, or says that no face is left.
    pub(crate) fn of_publisher(
        urls: &[String],
        faces: &[(FaceId, FaceConfig)],
        demands: &PathDemands,
        may_be_private: bool,
    ) -> Result<Mirrors, ApiError> {
        let wanted = WebMirrors { urls: urls.to_vec(), ..WebMirrors::default() };
        let mut mirrors = Mirrors::new(&wanted, &faces_for_strangers(faces, demands)?)?;
        mirrors.options.origin = match may_be_private {
            true => Origin::StrangerAnywhere,
            false => Origin::Stranger,
        };
        Ok(mirrors)
    }
    /// Lets them serve a fetch until it ends.
    ///
    /// # Errors
    /// [`ApiError`] if the node's family has no such sources, or the system no thread.
    pub(crate) fn serve(self, remote: Remote, transfer: TransferId) -> Result<(), ApiError> {
        if self.urls.is_empty() {
            return Ok(());
        }
        if remote.call(move |node, now| node.step_bulk(now, transfer, Vec::new()))?.is_none() {
            let message = "nodes of this family take nothing from web servers";
            return Err(ApiError::usage(message).with_hint("leave --mirror out"));
        }
        let work = move || {
            let mut host = NodeHost { remote: remote.clone(), transfer };
            if let Err(error) = tributary_web::node::serve(&mut host, &self.urls, &self.options) {
                remote.events.note(&format!("no mirror is used: {error}"));
            }
        };
        spawn("web", work).map(drop)
    }
}

/// The faces for requests to servers that a publisher chose: those that the fetch may use, without spared ones
/// (backups, and those with a quota or a timetable, which these requests would not count or keep), of these the
/// cheapest.
fn faces_for_strangers(faces: &[(FaceId, FaceConfig)], demands: &PathDemands) -> Result<Vec<FaceConfig>, ApiError> {
    let is_wanted =
        |id: FaceId| !demands.avoid.contains(&id) && (demands.only.is_empty() || demands.only.contains(&id));
    let is_free =
        |face: &FaceConfig| !face.policy.is_backup && face.policy.quota.is_none() && face.policy.schedule.is_empty();
    let free = faces.iter().filter(|(id, face)| is_wanted(*id) && is_free(face)).map(|(_, face)| face);
    let least = free.clone().map(|face| face.policy.cost).min();
    let left: Vec<FaceConfig> = free.filter(|face| Some(face.policy.cost) == least).cloned().collect();
    // A node that only listens has no face of the config.
    match left.is_empty() && !(faces.is_empty() && demands.only.is_empty()) {
        true => Err(ApiError::usage("no face is left for requests to them")),
        false => Ok(left),
    }
}

/// Where a face leaves this machine: mirrors are used over every uplink that the config names.
pub fn uplink_of(face: &FaceConfig) -> Uplink {
    // A server elsewhere is not reached from a loopback address.
    let local = face.local.map(|address| address.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback());
    match (&face.device, local) {
        (Some(device), _) => Uplink::Device(device.clone()),
        (None, Some(address)) => Uplink::Address(address),
        (None, None) => Uplink::Any,
    }
}

struct NodeHost {
    remote: Remote,
    transfer: TransferId,
}
impl Host for NodeHost {
    fn step(&mut self, inputs: Vec<BulkInput>) -> Option<BulkStep> {
        let transfer = self.transfer;
        self.remote.call(move |node, now| node.step_bulk(now, transfer, inputs)).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NodeConfig;

    #[test]
    fn servers_that_a_publisher_names_are_asked_over_faces_that_the_fetch_may_use_and_nobody_spares() {
        let text = "[node]\nlabel = \"a\"\nroles = [\"receiver\"]\nlisten = [\"0.0.0.0:0\"]\n\
                    [[face]]\npeer = \"192.0.2.1:7001\"\ndevice = \"wlan0\"\n\
                    [[face]]\npeer = \"192.0.2.2:7001\"\ndevice = \"wwan0\"\n\
                    [[face]]\npeer = \"192.0.2.3:7001\"\ndevice = \"eth0\"\n";
        let config = NodeConfig::parse("node.toml", text, std::path::Path::new("/")).expect("a legal config");
        let mut faces: Vec<(FaceId, FaceConfig)> = (1..).map(FaceId).zip(config.faces).collect();
        let of = |faces: &[(FaceId, FaceConfig)], only: &[u32], avoid: &[u32]| {
            let ids = |of: &[u32]| of.iter().map(|id| FaceId(*id)).collect();
            let demands = PathDemands { only: ids(only), avoid: ids(avoid), ..PathDemands::default() };
            let mirrors = Mirrors::of_publisher(&["http://a/f".into()], faces, &demands, false);
            mirrors.ok().map(|mirrors| mirrors.options.uplinks.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let named = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&faces, &[], &[]), named(&["wlan0", "wwan0", "eth0"]));
        assert_eq!(of(&faces, &[1], &[]), named(&["wlan0"]));
        assert_eq!(of(&faces, &[], &[1, 2]), named(&["eth0"]));
        assert_eq!(of(&faces, &[], &[1, 2, 3]), None);
        faces[0].1.policy.is_backup = true;
        faces[1].1.policy.cost = 1;
        assert_eq!(of(&faces, &[], &[]), named(&["eth0"]));
        assert_eq!(of(&faces, &[], &[3]), named(&["wwan0"]), "the cheapest that is left");
        assert_eq!(of(&faces, &[1], &[]), None);
        assert_eq!(of(&[], &[9], &[]), None);
        assert!(of(&[], &[], &[]).is_some(), "it only listens");
    }

    #[test]
    fn mirrors_leave_where_faces_do_unless_the_fetch_names_uplinks() {
        let text = "[node]\nlabel = \"a\"\nroles = [\"receiver\"]\nlisten = [\"0.0.0.0:0\", \"127.0.0.1:0\"]\n\
                    [[face]]\npeer = \"192.0.2.1:7001\"\ndevice = \"wlan0\"\n\
                    [[face]]\npeer = \"192.0.2.2:7001\"\n\
                    [[face]]\npeer = \"127.0.0.1:7001\"\nlocal = \"127.0.0.1:0\"\n";
        let config = NodeConfig::parse("node.toml", text, std::path::Path::new("/")).expect("a legal config");
        let of = |interfaces: &[&str]| {
            let interfaces = interfaces.iter().map(ToString::to_string).collect();
            let wanted = WebMirrors { urls: vec!["http://a/f".into()], interfaces, ..WebMirrors::default() };
            Mirrors::new(&wanted, &config.faces).expect("legal").options.uplinks
        };
        assert_eq!(of(&[]), [Uplink::Device("wlan0".into()), Uplink::Any, Uplink::Any]);
        assert_eq!(of(&["192.0.2.9"]), [Uplink::Address("192.0.2.9".parse().expect("an address"))]);
    }
}

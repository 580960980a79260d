//! Why a fetch got no answer: the state of a node's neighbours and resolvers, in words.
use std::{
    collections::BTreeSet,
    io::ErrorKind as IoErrorKind,
    net::{SocketAddr, UdpSocket},
    time::Duration,
};
use tributary_core::Time;
use tributary_transport::{FaceStatus, Obstacle, ObstacleKind};

use crate::{
    config::{FaceConfig, Role},
    error::{ApiError, ErrorKind},
    families::{Liveness, Resolution},
    node::LocalNode,
};

/// How long a neighbour's machine may take to refuse a datagram at a closed port.
const PROBE_PATIENCE: Duration = Duration::from_millis(200);
/// How many silent neighbours are described.
const NEIGHBOURS_LISTED: usize = 4;

/// Why a fetch finds no source, and a remedy; `None` if only the silence is known.
pub(crate) fn diagnose(node: &LocalNode, name: &str, obstacle: Option<&Obstacle>) -> Option<ApiError> {
    let is_answered = obstacle.is_some_and(|obstacle| obstacle.kind == ObstacleKind::NoSuchName);
    if let Some(diagnosis) = alone(node).filter(|_| !is_answered) {
        return Some(diagnosis);
    }
    let Obstacle { kind, reason } = obstacle?;
    let profile = node.config.family().profile();
    let lists = profile.abilities.listing;
    let hint = match kind {
        ObstacleKind::Missing if profile.resolution == Resolution::Routes => {
            "write routes = [\"/\"] into the [[face]] that leads there".to_string()
        }
        ObstacleKind::Missing => missing_role(profile.resolution, &node.config.roles),
        ObstacleKind::NoSuchName if lists => "is it published? list what the network offers with `trib ls`".into(),
        ObstacleKind::NoSuchName => {
            format!("is it published, and does its publisher register there? `trib ping {name}` tries the way")
        }
        ObstacleKind::Silent if lists => {
            "`trib status` shows the neighbours, here and there, and `trib ls` what the network offers".into()
        }
        ObstacleKind::Silent => format!("`trib status` shows the neighbours, and `trib ping {name}` tries the way"),
    };
    Some(ApiError::new(ErrorKind::NotFound, reason).with_hint(hint))
}

/// Why no neighbour answers; `None` if one does.
pub(crate) fn alone(node: &LocalNode) -> Option<ApiError> {
    Neighbours::of(node).ok()?.diagnose(node)
}

/// A node's present neighbours.
struct Neighbours {
    faces: Vec<FaceStatus>,
    /// For each face its number, and when the last packet arrived, if any did.
    heard: Vec<(tributary_core::FaceId, Option<Time>)>,
    now: Time,
}

impl Neighbours {
    fn of(node: &LocalNode) -> Result<Neighbours, ApiError> {
        let runtime = &node.runtime;
        let faces = runtime.call(|node, now| node.status(now).faces)?;
        let stats = runtime.driver.stats()?;
        let streams =
            stats.streams.iter().map(|stream| (stream.face, (stream.in_packets > 0).then_some(runtime.now())));
        let heard = stats.faces.iter().map(|account| (account.face, account.heard)).chain(streams).collect();
        Ok(Neighbours { faces, heard, now: runtime.now() })
    }
    /// Whether the neighbour on this face answers: by its hellos or, in a family without them, by any packet.
    fn answers(&self, face: &FaceStatus, liveness: Liveness) -> bool {
        match liveness {
            Liveness::Traffic => self.heard(face.face).is_some() && !face.is_refused,
            Liveness::Hellos => face.up,
        }
    }
    fn heard(&self, face: tributary_core::FaceId) -> Option<Time> {
        self.heard.iter().find(|(of, _)| *of == face).and_then(|(_, heard)| *heard)
    }
    /// Why no neighbour answers; `None` if one does.
    fn diagnose(&self, node: &LocalNode) -> Option<ApiError> {
        let config = &node.config;
        if self.faces.iter().any(|face| self.answers(face, config.family().profile().liveness)) {
            return None;
        }
        let neighbours = node.runtime.neighbours();
        if neighbours.is_empty() {
            // Other nodes connect to a router or resolver; it may also be the only node.
            if config.has_role(Role::Router) || config.has_role(Role::Resolver) {
                return None;
            }
            let reason = "this node has no neighbour: its config has no [[face]], and no node has connected to it";
            let hint = "name one with peer = \"HOST:PORT\" in [[face]], or with --peer";
            return Some(ApiError::new(ErrorKind::NotFound, reason).with_hint(hint));
        }
        let listed = neighbours.iter().take(NEIGHBOURS_LISTED);
        let mut reasons: Vec<String> = listed.map(|(id, face)| self.silence(node, *id, face)).collect();
        if neighbours.len() > NEIGHBOURS_LISTED {
            reasons.push(format!("and {} more", neighbours.len() - NEIGHBOURS_LISTED));
        }
        let (kind, what, hint) = match self.faces.iter().any(|face| face.is_refused) {
            true if reasons.iter().any(|reason| reason.contains("trib key accept")) => (
                ErrorKind::Rejected,
                "a neighbour has another key than before",
                "`trib invite` on that node prints its key; whoever runs it can read that out to you",
            ),
            true => (
                ErrorKind::Rejected,
                "no neighbour is admitted or admits this node",
                "the network's operator admits nodes with `trib network admit`; `trib key show` prints this one's key",
            ),
            false => (
                ErrorKind::NotFound,
                "no neighbour answers",
                "is the node running that [[face]] names, and does a firewall let its UDP port through?",
            ),
        };
        Some(ApiError::new(kind, format!("{what}: {}", reasons.join("; "))).with_hint(hint))
    }
    /// Why the neighbour of a configured face is silent.
    fn silence(&self, node: &LocalNode, id: tributary_core::FaceId, face: &FaceConfig) -> String {
        let peer = &face.peer;
        let found = node.runtime.looked_up(id).and_then(|found| found.address);
        let status = self.faces.iter().find(|face| face.face == id);
        let problem =
            node.runtime.driver.stats().ok().and_then(|stats| node.runtime.problem(&id.to_string(), &stats, self.now));
        let heard = self.heard(id);
        // If it was never heard, the system knows more.
        let protection = status.filter(|status| heard.is_some() || status.is_refused);
        let protection = protection.and_then(|status| status.problem.clone());
        let state = match problem.or(protection) {
            Some(problem) => problem,
            None => match heard {
                Some(heard) => format!("silent for {:.0} s", self.now.since(heard).as_secs_f64()),
                None => peer
                    .datagrams()
                    .or(found)
                    .filter(|_| !peer.is_stream())
                    .map_or_else(|| "cannot connect, or nothing ever came".into(), |address| probe(address).into()),
            },
        };
        format!("{id} to {peer}: {state}")
    }
}

/// The hint for a network without a resolver: a node can resolve names for itself and its neighbours.
fn missing_role(resolution: Resolution, roles: &BTreeSet<Role>) -> String {
    let needed: &[Role] = match resolution {
        Resolution::Servers => &[Role::Router, Role::Resolver, Role::TopologyManager],
        Resolution::Routers => &[Role::Router, Role::Resolver],
        Resolution::Routes => &[],
    };
    let more = needed.iter().filter(|role| !roles.contains(role));
    let all: Vec<String> = roles.iter().chain(more).map(|role| format!("\"{role}\"")).collect();
    format!(
        "this node can do that for itself and its neighbours: roles = [{}] in its [node]; or name a neighbour that does",
        all.join(", ")
    )
}

/// Sends a datagram to a silent address, and returns the system's report: a running machine without a listener at that
/// port answers with ICMP.
fn probe(address: SocketAddr) -> &'static str {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let refused = UdpSocket::bind(any).and_then(|socket| {
        socket.set_read_timeout(Some(PROBE_PATIENCE))?;
        socket.connect(address)?;
        socket.send(&[])?;
        socket.recv(&mut [0; 1])
    });
    match refused.map_err(|error| error.kind()) {
        Err(IoErrorKind::ConnectionRefused) => "nothing listens there (connection refused)",
        Err(IoErrorKind::NetworkUnreachable) => "no route leads there (network unreachable)",
        Err(IoErrorKind::HostUnreachable) => "the machine is not there (host unreachable)",
        Ok(_) | Err(_) => "nothing ever came from there",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_where_nobody_listens_is_told_from_a_machine_that_says_nothing() {
        let taken = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = taken.local_addr().expect("it is bound");
        assert_eq!(probe(address), "nothing ever came from there");
        drop(taken);
        assert_eq!(probe(address), "nothing listens there (connection refused)");
    }
}

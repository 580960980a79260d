//! Everything that will happen in a run, drawn from its seed before it starts.
use std::{collections::BTreeSet, fmt};

use tributary_core::{Duration, Random, Time};

use super::{
    campaign::Options,
    canary::Canary,
    family::Family,
    faults::{self, Fault, FaultKind, Subject},
    messages::{self, Groups},
    profile::Profile,
    stored_messages::{self, Post},
    topology::Topology,
    workload::{self, ObjectSpec, Operation},
};

/// A run before it is run.
#[derive(Clone, Debug)]
pub struct Plan<S> {
    /// Its source.
    pub seed: u64,
    /// How nodes are set up.
    pub profile: Profile,
    /// Whether the network has an authority, and nodes have certificates.
    pub is_certified: bool,
    /// What all nodes have in common.
    pub settings: S,
    /// Nodes and links.
    pub topology: Topology,
    /// What can be published.
    pub objects: Vec<ObjectSpec>,
    /// Groups to which something is sent.
    pub groups: Groups,
    /// Devices that are away, and senders that end.
    pub post: Post,
    /// What people do, by time.
    pub operations: Vec<(Time, Operation)>,
    /// The faults, by time.
    pub faults: Vec<Fault>,
    /// The kinds of fault that were drawn.
    pub kinds: BTreeSet<FaultKind>,
    /// When all faults have ended and no operation starts any longer.
    pub mend: Time,
}

/// Streams of random numbers; faults use one for each kind, from 100 on.
const TOPOLOGY: u64 = 1;
const SETTINGS: u64 = 2;
const WORKLOAD: u64 = 3;
const SWARM: u64 = 4;
const GROUPS: u64 = 5;
const POST: u64 = 6;
const GATHERINGS: u64 = 7;
const FAULTS: u64 = 100;

impl<S> Plan<S> {
    /// Draws the plan of `seed`, without the parts that `options` leave out; everything else is unchanged.
    pub fn draw<F: Family<Settings = S>>(seed: u64, options: &Options) -> Plan<S> {
        let product = options.profile == Profile::Product;
        let mut swarm = Random::new(seed, SWARM);
        let seconds = 3.0 + swarm.unit() * swarm.unit() * 60.0;
        // Devices need some time to leave and return.
        let end = Duration::from_secs_f64(if product && F::HAS_GROUPS { seconds.max(12.0) } else { seconds });
        let mut topology = Topology::draw(&mut Random::new(seed, TOPOLOGY));
        let mut settings = F::draw(options.profile, &mut Random::new(seed, SETTINGS));
        if options.canary == Some(Canary::Forgetful) {
            F::forget(&mut settings);
        }
        let (mut objects, mut operations) = workload::draw(&topology, end, &mut Random::new(seed, WORKLOAD));
        let mut groups = Groups::default();
        if F::HAS_GROUPS && !options.leaves_out_groups {
            let (drawn, more) = messages::draw(&topology, end, &mut Random::new(seed, GROUPS));
            groups = drawn;
            operations.extend(more);
            operations.sort_by_key(|(time, _)| *time);
        }
        if product {
            workload::gather(&objects, &mut operations, end, &mut Random::new(seed, GATHERINGS));
        }
        let mut drawn = draw_kinds(options.profile, &mut swarm);
        let mut post = Post::default();
        if F::HAS_GROUPS && product && !options.leaves_out_groups {
            let mut random = Random::new(seed, POST);
            let (devices, more) = stored_messages::draw(&mut topology, end, &mut random);
            post = devices;
            if !post.couriers.is_empty() && random.chance(0.75) {
                // No other operations run, and faults are chosen to put promises at risk: such a run takes a fraction
                // of the time, without interference.
                (objects, operations, groups) = (Vec::new(), Vec::new(), Groups::default());
                drawn = faults::draw_deadly(&mut swarm);
            }
            operations.extend(more);
            operations.sort_by_key(|(time, _)| *time);
        }
        // Where the network offers paths; in the other family nodes find out for themselves which lead somewhere.
        if product && F::HAS_LISTINGS && !objects.is_empty() && swarm.chance(0.15) {
            drawn = faults::draw_weather(&mut swarm);
        }
        let kinds = match &options.only {
            Some(only) => drawn.intersection(only).copied().collect(),
            None => drawn,
        };
        let mut moments = stored_messages::moments(&topology, &operations);
        if product {
            moments.extend(workload::moments(F::only_name_server(&topology), &operations));
        }
        let subject = Subject { topology: &topology, objects: &objects, moments: &moments };
        let faults = faults::draw(&kinds, subject, end, |kind| Random::new(seed, FAULTS + kind));
        Plan {
            seed,
            profile: options.profile,
            is_certified: options.is_certified,
            settings,
            topology,
            objects,
            groups,
            post,
            operations,
            faults,
            kinds,
            mend: Time::ZERO + end,
        }
    }
    /// Whether unpublished bytes may arrive, so that an honest source may be blamed.
    pub fn has_faulty_sources(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind.is_byzantine())
    }
}

/// Few kinds, many kinds, rarely no fault: a defect that one kind hides shows with another seed.
fn draw_kinds(profile: Profile, swarm: &mut Random) -> BTreeSet<FaultKind> {
    let density = [0.0, 0.1, 0.1, 0.2, 0.2, 0.35, 0.5, 0.7][swarm.below(8) as usize];
    let is_product = profile == Profile::Product;
    let all = FaultKind::ALL.into_iter();
    let all = all.take(if is_product { FaultKind::ALL.len() } else { FaultKind::IN_LABORATORY });
    let drawn: BTreeSet<FaultKind> = all.filter(|_| swarm.chance(density)).collect();
    // Little can be promised where bytes are changed in transit: half of the plans exclude that.
    let is_honest = is_product && swarm.chance(0.5);
    drawn.into_iter().filter(|kind| !is_honest || !kind.is_byzantine()).collect()
}

impl<S: fmt::Debug> fmt::Display for Plan<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Topology { shape, nodes, links } = &self.topology;
        writeln!(
            f,
            "seed {}: {shape:?}, {} nodes, {} links, until {}",
            self.seed,
            nodes.len(),
            links.len(),
            self.mend
        )?;
        for (index, node) in nodes.iter().enumerate() {
            let roles = [
                (node.router, "router"),
                (node.resolver, "resolver"),
                (node.manager.is_some(), "manager"),
                (node.publisher, "publisher"),
                (node.receiver, "receiver"),
            ];
            let roles: Vec<&str> = roles.into_iter().filter(|(has, _)| *has).map(|(_, role)| role).collect();
            writeln!(f, "  node {index} {} ({}), cache {}", node.label, roles.join(" + "), node.cache_bytes)?;
        }
        for (index, link) in links.iter().enumerate() {
            let [(a, _), (b, _)] = link.ends;
            let way = &link.directions[0];
            let rate = way.rate.map_or("unlimited".into(), |rate| rate.to_string());
            writeln!(
                f,
                "  link {index}: {} - {}, {rate}, {:.1} ms, queue {} B, mtu {}",
                nodes[a].label,
                nodes[b].label,
                way.delay.as_secs_f64() * 1e3,
                way.queue_bytes,
                way.mtu
            )?;
        }
        writeln!(f, "  {:?}", self.settings)?;
        for object in &self.objects {
            writeln!(
                f,
                "  object {}: versions of {:?} bytes in chunks of {}",
                object.name, object.sizes, object.chunk_size
            )?;
        }
        for (time, operation) in &self.operations {
            writeln!(f, "  {time} {operation:?}")?;
        }
        for fault in &self.faults {
            writeln!(f, "  {} to {} {:?}", fault.from, fault.until, fault.what)?;
        }
        Ok(())
    }
}

//! The MobilityFirst family: from a checked node config to its node.
mod credential;
pub(crate) mod groups;
#[cfg(test)]
mod histories;
mod liar;
pub(crate) mod readers;
mod repository;
mod said;

use tributary_content::SigningKey;
use tributary_core::Time;
use tributary_mf::{Config, MfNode};

use self::liar::LyingCache;
use crate::{config::NodeConfig, error::ApiError, fault::Liar, registry::BoxedNode};

pub use credential::Credential;
pub use repository::FileRepository;

/// Makes a MobilityFirst node.
pub(crate) fn build(config: &NodeConfig, seed: u64) -> BoxedNode {
    let inner = node(config, seed);
    let share = config.faults.corrupt_cache;
    if share > 0.0 {
        let lie = LyingCache { own: inner.guid(), share };
        return Box::new(Liar { inner, lie });
    }
    Box::new(inner)
}
fn node(config: &NodeConfig, seed: u64) -> MfNode {
    let mut mf = Config { seed, ..config.mf.clone() };
    let Some(folder) = &config.store else { return MfNode::new(mf) };
    // What was said last counts; that it can be read has been seen to.
    for (name, readers) in readers::load(&config.state_dir).unwrap_or_default() {
        match readers {
            Some(devices) => drop(mf.readers.insert(name, devices)),
            None => drop(mf.readers.remove(&name)),
        }
    }
    for (label, members) in groups::load(&config.state_dir).unwrap_or_default() {
        match members {
            Some(members) => mf.groups.entry(label).or_default().members = members,
            None => drop(mf.groups.remove(&label)),
        }
    }
    let keeps_names = mf.resolver;
    let mut node = match mf.router && mf.proxy.enabled {
        true => MfNode::with_repository(Time::ZERO, mf, Box::new(FileRepository::new(folder))),
        false => MfNode::new(mf),
    };
    if keeps_names {
        node.keep_names(Time::ZERO, Box::new(FileRepository::new(&folder.join("names"))));
    }
    node
}

/// Sees that stored chunks and names can be read and written, who may look up names, and who belongs to groups.
pub(crate) fn check_storage(config: &NodeConfig) -> Result<(), ApiError> {
    let Some(folder) = &config.store else { return Ok(()) };
    readers::load(&config.state_dir)?;
    groups::load(&config.state_dir)?;
    let names = folder.join("names");
    let stores = config.mf.router && config.mf.proxy.enabled;
    let folders = [(stores, folder.as_path()), (config.mf.resolver, &names)];
    for (_, folder) in folders.into_iter().filter(|(is_used, _)| *is_used) {
        FileRepository::check(folder).map_err(|error| {
            let hint =
                "make the folder usable, name another 'state_dir' in [node], or move the folder away to begin anew";
            ApiError::io("keep chunks and names in", folder.display(), &error).with_hint(hint)
        })?;
    }
    Ok(())
}

/// The secret of a device, from which its GUID follows. Publishers may share a key between machines; a device is that of
/// one label. The signature that it is made from is never shown to anybody.
pub(crate) fn device_secret(key: &SigningKey, label: &str) -> [u8; 32] {
    let signature = key.sign("tributary mf device", label.as_bytes());
    blake3::derive_key("tributary 2026 mf device secret", &signature.0)
}

#[cfg(test)]
mod tests {
    use tributary_core::{Duration, Rate, Time, link::LinkConfig};

    use crate::{
        config::Role,
        registry::Family,
        simulation::{Scenario, Simulation, object},
    };

    #[test]
    fn a_scenario_of_this_family_runs_at_the_rate_of_its_narrowest_link() {
        let mut scenario = Scenario::new("mf", 1);
        scenario.add_node("tower", Family::Mf, &[Role::Router, Role::Resolver]);
        scenario.add_node("server", Family::Mf, &[Role::Sender]);
        scenario.add_node("phone", Family::Mf, &[Role::Receiver]);
        scenario.add_link("server", "tower", LinkConfig::new(Rate::from_mbps(50), Duration::from_millis(5)));
        scenario.add_link("tower", "phone", LinkConfig::new(Rate::from_mbps(20), Duration::from_millis(10)));
        scenario.publish("server", Time::ZERO, object("/lab/file", 5_000_000, 1));
        scenario.fetch("phone", Time::from_millis(2_000), "/lab/file".parse().expect("a name"));
        let outcome = Simulation::run(&scenario).expect("a scenario");
        let seconds = outcome.transfers[0].seconds().expect("it completes");
        // 2.0 s for the payload alone; chunks wait to be complete at the router, and slow start takes its time.
        assert!((2.0..2.5).contains(&seconds), "{seconds} s");
    }
}

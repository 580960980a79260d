//! Members on the same segment, found by DNS-SD (RFC 6763) over mDNS (RFC 6762).
use std::{net::SocketAddr, sync::Arc};

use mdns_sd::{Error, ServiceDaemon, ServiceEvent, ServiceInfo};
use tributary::spawn;

use super::members::Site;

/// The type of the service: the port of a node over TCP, where members ask.
const SERVICE: &str = "_trib-site._tcp.local.";

/// Announces a gateway for as long as it lives.
pub(super) struct Discovery {
    daemon: ServiceDaemon,
    name: String,
}

impl Discovery {
    /// Announces the gateway at this address, and passes the other ones of the site on.
    pub(super) fn start(site: &Arc<Site>, own: SocketAddr) -> Result<Discovery, Error> {
        let daemon = ServiceDaemon::new()?;
        let found = daemon.browse(SERVICE)?;
        // A label may be the same on two machines. Greetings show it.
        let id: String = site.key().0[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let host = format!("trib-{id}.local.");
        let of_site = [("site", site.name())];
        let any = own.ip().is_unspecified();
        let address = if any { String::new() } else { own.ip().to_string() };
        let info = ServiceInfo::new(SERVICE, &id, &host, &*address, own.port(), &of_site[..])?;
        let info = if any { info.enable_addr_auto() } else { info };
        let name = info.get_fullname().to_string();
        daemon.register(info)?;
        let (of, own_name) = (Arc::downgrade(site), name.clone());
        let listen = move || {
            while let (Ok(event), Some(site)) = (found.recv(), of.upgrade()) {
                match event {
                    ServiceEvent::ServiceResolved(service) if service.fullname != own_name => {
                        let is_ours = service.get_property_val_str("site") == Some(site.name());
                        let reached = service.addresses.iter().map(|address| address.to_ip_addr());
                        let reached = reached.filter(|ip| is_ours && ip.is_ipv4() == own.is_ipv4());
                        let reached = reached.map(|ip| SocketAddr::new(ip, service.port)).collect();
                        site.found(service.fullname.clone(), reached);
                    }
                    ServiceEvent::ServiceRemoved(_, name) => site.found(name, Vec::new()),
                    _ => {}
                }
            }
        };
        spawn("discovery", listen).map_err(|error| Error::Msg(error.message))?;
        Ok(Discovery { daemon, name })
    }
}
impl Drop for Discovery {
    /// Says goodbye, so that others forget it at once.
    fn drop(&mut self) {
        let gone = self.daemon.unregister(&self.name);
        let _ = gone.map(|gone| gone.recv_timeout(std::time::Duration::from_millis(500)));
        let _ = self.daemon.shutdown();
    }
}

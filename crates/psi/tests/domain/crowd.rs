use tributary_testkit::crowd::{self, Role};

use super::*;

#[test]
fn receivers_behind_one_router_need_as_long_as_one_of_them() {
    let node = |role, label: &str, seed| {
        let mut config = Config::new(label, seed);
        if let Role::Router(cache) = role {
            (config.router, config.resolver, config.topology_manager) = (true, true, Some(10));
            config.cache_bytes = cache;
        }
        PsiNode::new(config)
    };
    crowd::assert_all_are_served(node, |_, _, _| {});
}

//! What people and programs write: config files, and the lines of the control socket.
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Debug, path::Path};
use tributary::{
    NodeConfig, Notice, Request,
    config::{ConfigErrors, Drawing},
};

/// A config file yields settings within their ranges, or errors that each point at a place in the file, are sorted by
/// place, and can be displayed.
pub fn node_config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match NodeConfig::parse("fuzz.toml", text, Path::new("/etc/tributary")) {
        Ok(config) => check_config(&config),
        Err(errors) => check_errors(text, &errors),
    }
}

fn check_config(config: &NodeConfig) {
    assert!((1..=32).contains(&config.label.len()));
    assert!(!config.roles.is_empty());
    assert!(!config.listen.is_empty() || !config.listen_streams.is_empty());
    assert!(config.transfer().is_none_or(|transfer| transfer.check() == Ok(())));
    assert!((1..=16).contains(&config.fetch.paths_per_source));
    let shares = [config.faults.corrupt_chunks, config.faults.corrupt_cache];
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
    for face in &config.faces {
        assert!(face.peer.port() != Some(0) && (576..=65_507).contains(&face.mtu));
        if let Some(link) = &face.egress {
            let shares = [link.duplicate, link.corrupt, link.reorder.probability];
            assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
        }
    }
}
/// Errors with more problems are not drawn.
const DRAWN_MAX: usize = 4;

fn check_errors(text: &str, errors: &ConfigErrors) {
    assert!(!errors.problems().is_empty());
    let lines = text.matches('\n').count() + 1;
    let mut previous = 0;
    for problem in errors.problems() {
        assert!(problem.span.start >= previous && problem.span.start <= text.len(), "{problem:?}");
        assert!(problem.span.end <= text.len() && problem.span.start <= problem.span.end, "{problem:?}");
        previous = problem.span.start;
        let (line, column) = errors.position(problem);
        assert!((1..=lines).contains(&line) && column >= 1);
        assert!(!problem.message.is_empty());
    }
    assert!(errors.to_string().starts_with("fuzz.toml:"));
    // Displaying takes some time per problem.
    if errors.problems().len() <= DRAWN_MAX {
        assert!(!errors.render(Drawing::Plain, 80).is_empty());
    }
}

/// A line of the control socket parses as a request or as a message, and both survive encoding and parsing.
pub fn control_line(data: &[u8]) {
    json::<Request>(data);
    json::<Notice>(data);
}

fn json<T: Serialize + DeserializeOwned + PartialEq + Debug>(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(data) else { return };
    let line = serde_json::to_string(&value).expect("strings and numbers can always be written");
    assert!(!line.contains('\n'), "one line");
    assert_eq!(serde_json::from_str::<T>(&line).ok(), Some(value));
}

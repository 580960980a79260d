//! Commands that need a line or two.
use std::{fmt::Display, path::Path};
use tributary::{
    Api, ApiError, ErrorKind, Flow, Notice, Request, accept_key, config::Invitation, load_key, time_of_day,
};
use tributary_terminal::out;
use tributary_terminal::{
    arguments,
    manual::{self, Page},
    qr,
};

use super::{
    answer::print,
    daemons,
    executor::{milliseconds, worker},
    load::load,
};
use crate::{
    args::{Config, Control, Invite, Key, Ls, declared},
    signals::Wish,
    tables,
};

/// Time from one line about a transfer to the next in `trib watch`.
const WATCH_PROGRESS_MS: u64 = 1_000;

/// `trib ls`.
pub(crate) fn ls(ls: &Ls, json: bool) -> Result<(), ApiError> {
    let mut request = Request::List { scope: ls.name.to_string(), patience_ms: milliseconds(ls.timeout) };
    worker(&ls.worker, &mut request, &Wish::default())?.api().ask(request, None, &mut |notice| {
        print(&notice, json);
        Flow::Continue
    })
}

/// `trib status`: everything about the daemon that is named or runs alone; a line for each of several.
pub(crate) fn status(control: &Control, json: bool) -> Result<(), ApiError> {
    let nodes = daemons::all(control)?;
    if nodes.len() == 1 || json {
        nodes.into_iter().for_each(|node| print(&Notice::Status(Box::new(node.status)), json));
        return Ok(());
    }
    out::data(&format!("{} daemons run here:", nodes.len()));
    for node in &nodes {
        out::data(&format!("  {}", tables::node_line(&node.status)));
    }
    out::talk(&format!("`trib status --control {}` shows one of them", nodes[0].status.label));
    Ok(())
}

/// `trib face list`.
pub(crate) fn faces(control: &Control, json: bool) -> Result<(), ApiError> {
    let nodes = daemons::all(control)?;
    let several = nodes.len() > 1;
    for node in nodes {
        if json {
            print(&Notice::Status(Box::new(node.status)), json);
            continue;
        }
        let heading = several.then(|| tables::node_line(&node.status));
        heading.into_iter().chain(tables::faces(&node.status)).for_each(|line| out::data(&line));
    }
    Ok(())
}

/// `trib watch`: a line for each event.
pub(crate) fn watch(control: &Control, json: bool) -> Result<(), ApiError> {
    let request = Request::Watch { progress_ms: WATCH_PROGRESS_MS };
    daemons::connect(control, &request)?.ask(request, None, &mut |notice| {
        print(&notice, json);
        Flow::Continue
    })
}

/// `trib config check`.
pub(crate) fn config(config: &Config, json: bool) -> Result<(), ApiError> {
    let Config::Check { file } = config;
    let checked = load(file)?;
    checked.warnings().iter().for_each(|warning| out::talk(&format!("warning: {warning}")));
    let notice = Notice::Config {
        file: file.display().to_string(),
        family: checked.family().to_string(),
        label: checked.label,
        roles: checked.roles.iter().map(ToString::to_string).collect(),
        faces: checked.faces.len(),
    };
    print(&notice, json);
    Ok(())
}

/// Executes `trib invite`.
pub(crate) fn invite(invite: &Invite, json: bool) -> Result<(), ApiError> {
    let wrong = |reason: &dyn Display| ApiError::usage(format!("cannot invite: {reason}"));
    let status = daemons::only(&invite.control)?;
    let Some(line) = &status.invitation else {
        return Err(wrong(&format!("'{}' takes no protected datagrams", status.label)));
    };
    let mut invitation: Invitation = line.parse().map_err(|error| wrong(&error))?;
    if !invite.hosts.is_empty() {
        let full = |host: &String| invitation.address.replaced(host).map(|address| address.to_string());
        let hosts = invite.hosts.iter().map(full).collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
        invitation.address = hosts.join(",").parse().map_err(|error| wrong(&error))?;
    }
    invitation.family = status.family.parse().ok();
    invitation.network = status.network.and_then(|network| network.authority.parse().ok());
    invitation.until = invite.seconds.map(|seconds| time_of_day().after(seconds));
    let text = invitation.to_string();
    if invite.qr {
        qr::draw(&text).map_err(|error| wrong(&error))?.iter().for_each(|line| out::talk(line));
    }
    print(&Notice::Invitation { invitation: text, until: invitation.until.map(|until| until.0) }, json);
    Ok(())
}

/// `trib key`.
pub(crate) fn key(key: &Key, json: bool) -> Result<(), ApiError> {
    let file = match key {
        Key::New { file } if file.exists() => {
            let message = format!("'{}' already exists; a key is never overwritten", file.display());
            return Err(ApiError::usage(message).with_hint("show it with `trib key show`, or move it away"));
        }
        Key::New { file } => file,
        Key::Show { file } if !file.exists() => {
            let message = format!("there is no key file '{}'", file.display());
            return Err(ApiError::new(ErrorKind::Io, message).with_hint("make one with `trib key new`"));
        }
        Key::Show { file } => file,
        Key::Accept { address, key, node } => {
            let folder = if node.is_dir() { node.clone() } else { load(node)?.state_dir };
            accept_key(&folder, address, key)?;
            out::talk(&format!("{address} is known by {key} from now on"));
            return Ok(());
        }
    };
    let public = load_key(file)?.public().to_string();
    print(&Notice::Key { file: file.display().to_string(), public }, json);
    Ok(())
}

/// The book's pages that are manual pages of config files.
const CONFIGS: [Page; 1] = [Page {
    title: "tributary.toml",
    about: "config of a node of Tributary",
    text: include_str!("../../pages/config.md"),
}];

/// `trib man`.
pub(crate) fn man(folder: &Path) -> Result<(), ApiError> {
    arguments::write_manual(declared(), folder)?;
    manual::write_to(&CONFIGS, folder)
}

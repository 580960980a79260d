//! `trib network`.
use std::path::Path;
use tributary::{
    ApiError, Notice,
    authority::{Admission, Admitted, Authority, Candidate, write_certificate},
};
use tributary_terminal::out;
use tributary_trust::Roles;

use super::answer::print;
use crate::args::{Admit, Network, Revoke};

/// Carries out a command of an authority.
pub(crate) fn run(network: &Network, json: bool) -> Result<(), ApiError> {
    match network {
        Network::New { folder } => {
            let authority = Authority::create(folder)?;
            show(&authority, folder, json)?;
            out::talk(&format!(
                "write into the config of each node:\n  [network]\n  authority = \"{}\"\nand admit it with \
                 `trib network admit`; the secret key is in '{}': keep it apart from the nodes",
                authority.public(),
                folder.join("authority").display()
            ));
            Ok(())
        }
        Network::Admit(admit) => self::admit(admit, json),
        Network::Revoke(revoke) => self::revoke(revoke, json),
        Network::Show { of } => show(&Authority::open(&of.folder)?, &of.folder, json),
    }
}

fn admit(admit: &Admit, json: bool) -> Result<(), ApiError> {
    let authority = Authority::open(&admit.of.folder)?;
    let candidate = Candidate::find(&admit.node)?;
    let label = admit.label.clone().or(candidate.label).ok_or_else(|| {
        let message = format!("cannot admit {}: its label is not known", candidate.key);
        ApiError::usage(message).with_hint("name it with --label, or name the node by its config")
    })?;
    let roles = match admit.roles.is_empty() {
        true => candidate.roles,
        false => admit.roles.iter().copied().collect::<Roles>(),
    };
    let admission = Admission { roles, names: admit.names.clone(), seconds: admit.seconds };
    let (certificate, file) = authority.admit(candidate.key, &label, admission)?;
    let mut files = vec![file.display().to_string()];
    if let Some(path) = &candidate.certificate {
        write_certificate(path, &certificate)?;
        files.push(path.display().to_string());
    }
    let member = Admitted { terms: certificate.terms().clone(), is_revoked: false, has_ended: false };
    if authority.revocations()?.keys().contains(&candidate.key) {
        out::talk("warning: this key is revoked, so that no certificate of it is accepted; make the node a new key");
    }
    print(&Notice::Admitted { member: member.view(), files }, json);
    Ok(())
}

fn revoke(revoke: &Revoke, json: bool) -> Result<(), ApiError> {
    let authority = Authority::open(&revoke.of.folder)?;
    let (revocations, terms) = authority.revoke(&revoke.what)?;
    let members = terms.into_iter().map(|terms| Admitted { terms, is_revoked: true, has_ended: false }.view());
    let file = authority.revocations_file().display().to_string();
    print(&Notice::Revoked { file, revocations, members: members.collect() }, json);
    Ok(())
}

fn show(authority: &Authority, folder: &Path, json: bool) -> Result<(), ApiError> {
    let notice = Notice::Network {
        folder: folder.display().to_string(),
        authority: authority.public().to_string(),
        revocations: authority.revocations()?.number(),
        members: authority.admitted()?.iter().map(Admitted::view).collect(),
    };
    print(&notice, json);
    Ok(())
}

//! The four messages of a handshake, from both sides.
use super::*;

impl Layer {
    // Handshakes.

    pub(super) fn initiate(&mut self, now: Time, id: FaceId) {
        let index = self.new_index(id);
        let ephemeral = self.draw();
        let mut noise = Handshake::new(true, &self.config.secret, ephemeral, PROLOGUE);
        let Some(first) = noise.write(&[]) else { return };
        self.stats.initiated += 1;
        self.send(id, &Packet::Initiation { from: index, cookie: None, noise: &first });
        let face = self.face(id);
        let before = face.initiating.replace(Initiating {
            index,
            noise,
            first,
            cookie: None,
            cookies: 0,
            retry: Retry::new(now),
        });
        before.into_iter().for_each(|before| self.disown(before.index));
        self.schedule(id);
    }
    pub(super) fn on_initiation(
        &mut self,
        now: Time,
        id: FaceId,
        from: SessionIndex,
        cookie: Option<Cookie>,
        first: &[u8],
    ) {
        let is_proven = core::mem::take(&mut self.has_proven);
        if !is_proven && !cookie.is_some_and(|cookie| self.cookies.is_valid(now, Holder::Face(id), &cookie)) {
            self.stats.cookies += 1;
            let cookie = self.cookies.make(now, Holder::Face(id));
            return self.send(id, &Packet::Cookie { to: from, cookie });
        }
        if let Some(face) = self.faces.get_mut(&id) {
            let is_same = |responding: &&Responding| responding.first == first && responding.theirs == from;
            if let Some(responding) = face.responding.iter().find(is_same) {
                // The answer was lost.
                let response = responding.response.clone();
                return self.out.push_back((id, response));
            }
        }
        if !self.may_answer(now, id) {
            return;
        }
        let ephemeral = self.draw();
        let Some((noise, second)) = self.respond(ephemeral, first) else {
            self.stats.forged += 1;
            return;
        };
        let index = self.new_index(id);
        let response = Packet::Response { to: from, from: index, noise: &second }.encode();
        self.out.push_back((id, response.clone()));
        let responding = Responding { index, theirs: from, noise, ephemeral, first: first.to_vec(), response };
        let face = self.face(id);
        let oldest = if face.responding.len() == RESPONDING_MAX { face.responding.pop_front() } else { None };
        face.responding.push_back(responding);
        oldest.into_iter().for_each(|oldest| self.disown(oldest.index));
    }
    /// The answer to the first message of a handshake.
    pub(super) fn respond(&self, ephemeral: [u8; 32], first: &[u8]) -> Option<(Handshake, Vec<u8>)> {
        let mut noise = Handshake::new(false, &self.config.secret, ephemeral, PROLOGUE);
        noise.read(first)?;
        let second = noise.write(&self.presented)?;
        Some((noise, second))
    }
    /// Makes a handshake as it was before a third message that was forged: the library changes it while it reads.
    pub(super) fn begin_again(&mut self, now: Time, id: FaceId, index: SessionIndex) {
        let may = self.may_answer(now, id);
        let Some(face) = self.faces.get(&id) else { return };
        let Some(place) = face.responding.iter().position(|responding| responding.index == index) else { return };
        let responding = &face.responding[place];
        let again = if may { self.respond(responding.ephemeral, &responding.first) } else { None };
        let Some(face) = self.faces.get_mut(&id) else { return };
        match again {
            Some((noise, _)) => face.responding[place].noise = noise,
            None => {
                face.responding.remove(place);
                self.disown(index);
            }
        }
    }
    pub(super) fn on_cookie(&mut self, now: Time, id: FaceId, to: SessionIndex, cookie: Cookie) {
        let Some(initiating) = self.initiating(id, to) else { return };
        initiating.cookies += 1;
        if initiating.cookies > COOKIES_MAX || initiating.cookie.replace(cookie) == Some(cookie) {
            return;
        }
        initiating.retry = Retry { due: now + RETRY_FIRST, ..initiating.retry };
        let first = initiating.first.clone();
        self.send(id, &Packet::Initiation { from: to, cookie: Some(cookie), noise: &first });
        self.schedule(id);
    }
    pub(super) fn on_response(&mut self, now: Time, id: FaceId, to: SessionIndex, from: SessionIndex, second: &[u8]) {
        let Some(initiating) = self.initiating(id, to) else { return };
        // A forged answer must not end the handshake, and one that fails leaves the state as it was.
        let Some(payload) = initiating.noise.read(second) else {
            self.stats.forged += 1;
            return;
        };
        let Some(Initiating { mut noise, retry, .. }) = self.face(id).initiating.take() else { return };
        let key = noise.remote_key();
        let admitted = self.admit(now, id, key, &payload);
        let Some(third) = noise.write(&self.presented) else { return self.disown(to) };
        let finish = Packet::Finish { to: from, noise: &third }.encode();
        self.out.push_back((id, finish.clone()));
        let leads = key.is_some_and(|key| self.public < key);
        let protection = admitted.as_ref().map_or(Protection::Encrypted, |(_, protection)| *protection);
        let session = Session::new(&noise.into_keys(), (to, from), protection, now, (true, leads));
        let peer = match admitted {
            Ok((peer, _)) => peer,
            Err(refusal) => return self.reject(now, id, session, key, &refusal),
        };
        self.meet(now, id, key, peer);
        let face = self.face(id);
        let is_first = face.current.is_none();
        let before = face.finishing.replace(Finishing { session, finish, retry: Retry { attempts: 1, ..retry } });
        before.into_iter().for_each(|before| self.disown(before.session.ours));
        if is_first {
            self.flush(id);
        }
        self.schedule(id);
    }
    pub(super) fn on_finish(&mut self, now: Time, id: FaceId, to: SessionIndex, third: &[u8]) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        if face.current.as_ref().is_some_and(|session| session.ours == to) {
            // The confirmation was lost.
            return self.send_control(id, id, to, Control::Confirm);
        }
        let Some(place) = face.responding.iter().position(|responding| responding.index == to) else { return };
        let Some(payload) = face.responding[place].noise.read(third) else {
            self.stats.forged += 1;
            return self.begin_again(now, id, to);
        };
        let Some(Responding { theirs, noise, .. }) = face.responding.remove(place) else { return };
        let key = noise.remote_key();
        let admitted = self.admit(now, id, key, &payload);
        let protection = admitted.as_ref().map_or(Protection::Encrypted, |(_, protection)| *protection);
        let leads = key.is_some_and(|key| key < self.public);
        let session = Session::new(&noise.into_keys(), (to, theirs), protection, now, (false, leads));
        match admitted {
            Ok((peer, _)) => {
                self.meet(now, id, key, peer);
                self.use_session(id, session);
                self.send_control(id, id, to, Control::Confirm);
                self.flush(id);
            }
            Err(refusal) => self.reject(now, id, session, key, &refusal),
        }
    }
    /// Refuses the holder of `key`, which hears why under the keys of the session that it does not get. Sessions of another
    /// key stay: an attacker on the path can begin a handshake.
    fn reject(
        &mut self,
        now: Time,
        id: FaceId,
        mut session: Session,
        key: Option<[u8; 32]>,
        Refusal { reason, remedy }: &Refusal,
    ) {
        let mut sealed = BytesMut::new();
        session.seal(Kind::Control, &Control::Refuse(reason).encode(), &[], &mut sealed);
        self.out.push_back((id, sealed.to_vec()));
        self.disown(session.ours);
        let reason = remedy.iter().fold(reason.clone(), |reason, remedy| format!("{reason}; {remedy}"));
        if self.face(id).is_of_another(key) {
            self.stats.refused += 1;
            return self.note(now, id, Trouble::Refused(reason));
        }
        self.forget_sessions(id);
        self.part(id);
        self.refuse(now, id, reason);
    }
    /// The neighbour uses the session that this node started.
    pub(super) fn confirm(&mut self, id: FaceId) {
        let Some(finishing) = self.faces.get_mut(&id).and_then(|face| face.finishing.take()) else { return };
        self.use_session(id, finishing.session);
        self.flush(id);
        self.schedule(id);
    }
    pub(super) fn use_session(&mut self, id: FaceId, session: Session) {
        self.stats.established += 1;
        let face = self.face(id);
        let is_second =
            |current: &Session| current.leads && !session.leads && session.since.since(current.since) < SIMULTANEOUS;
        let before = if face.current.as_ref().is_some_and(is_second) {
            face.previous.replace(session)
        } else {
            core::mem::replace(&mut face.previous, face.current.replace(session))
        };
        before.into_iter().for_each(|before| self.disown(before.ours));
    }
    /// The identity of a key's holder, and the protection of packets: the stricter of both ends' wishes.
    pub(super) fn admit(
        &mut self,
        now: Time,
        id: FaceId,
        key: Option<[u8; 32]>,
        payload: &[u8],
    ) -> Result<(Peer, Protection), Refusal> {
        let (Some(key), Some((protection, presented))) = (key, payload.split_first()) else {
            return Err("its handshake has another form: is its program of another version?".into());
        };
        let theirs = if *protection == 0 { Protection::Authenticated } else { Protection::Encrypted };
        let peer = self.admission.admit(now, id, &key, presented)?;
        if self.faces.get(&id).is_some_and(|face| face.is_heard(now) && face.is_of_another(Some(key))) {
            return Err("a session under another key is in use here, and ends when that key is silent".into());
        }
        Ok((peer, self.config.protection.max(theirs)))
    }
    pub(super) fn refuse(&mut self, now: Time, id: FaceId, reason: String) {
        self.stats.refused += 1;
        self.face(id).not_before = now + REFUSED_FOR;
        self.note(now, id, Trouble::Refused(reason));
    }
    /// Sets the neighbour on a face before its session is used. Sessions of another neighbour end, because their
    /// packets would count as this one's.
    pub(super) fn meet(&mut self, now: Time, id: FaceId, key: Option<[u8; 32]>, peer: Peer) {
        if self.face(id).is_of_another(key) {
            self.end_sessions(id);
        }
        // Reported even for the same neighbour: its rights may have changed.
        self.peers.push_back((id, Some(peer.clone())));
        let face = self.face(id);
        (face.key, face.heard, face.trouble) = (key, Some(now), None);
        if face.peer.as_ref() != Some(&peer) {
            let note = format!("{id} is {} ({})", peer.label, peer.key);
            face.peer = Some(peer);
            self.events.push_back(Event::Note(note));
        }
    }
    /// Whether a handshake of a face may be answered, which costs more than the request. Each address has its own
    /// share, and all unproven faces together leave time for neighbours.
    pub(super) fn may_answer(&mut self, now: Time, id: FaceId) -> bool {
        let face = self.face(id);
        let is_configured = face.is_configured;
        let may = face.answered.take(now, FACE_HANDSHAKE_BURST, FACE_HANDSHAKES_PER_SECOND)
            && (is_configured || self.strangers.take(now, HANDSHAKE_BURST, HANDSHAKES_PER_SECOND));
        self.stats.postponed += u64::from(!may);
        may
    }
}

//! A file that one member of a site asks another for.
//!
//! ```text
//!  origin ─once─► first member of the file's order ─► member A      small files, and the first reader of a large one
//!                                                        └─► B ─► C    further readers, each of the one before it
//! ```
//! A question of a member leads to the origin and to no further member, so there are no loops. If a connection is
//! cut, the reader asks those who hold the missing bytes or read them from the origin, and after them the origin. Large
//! files that are complete come from all members at once, below their digests, as neighbours' copies do.
use std::{sync::Arc, time::Duration};

use hyper::{HeaderMap, Method, header};
use tributary_content::{PublicKey, Reference};
use tributary_net::wall_clock;
use tributary_web::header::{HeaderName, HeaderValue};

use super::{
    Ask, FORWARDED, Landed, Origins, Target,
    copy::{Copy, Head, Verified, texts},
    filling::{LARGE_BYTES, Source},
    members::Place,
    neighbours, policy,
    wire::{Answer, FileWish, Line, Wish},
};
use crate::sessions::Failure;

/// Members to try before the origin.
const MEMBERS_MAX: usize = 3;
/// Members after this one that may have a copy.
const NEXT_MAX: usize = 2;
/// Further questions to a member that will soon have the missing bytes, and the time between them.
const AGAIN_MAX: u32 = 30;
const AGAIN: Duration = Duration::from_millis(100);

impl Origins {
    /// Asks the members that come before this one in the order of a file; `None` if this one should ask the origin.
    pub(super) async fn ask_site(self: &Arc<Self>, ask: &Ask, is_anew: bool) -> Option<Result<Landed, Failure>> {
        let site = self.site.as_ref().filter(|_| !ask.is_private())?;
        let (before, _) = site.order(&ask.file);
        for (key, address) in before.into_iter().filter(|(key, _)| self.is_believed(ask, key)).take(MEMBERS_MAX) {
            let mut wish = ask.wish(0);
            wish.is_anew = is_anew;
            let mut asked = self.ask_member((key, address), wish.clone()).await;
            if let Ok((_, Answer::Elsewhere(reader))) = &asked {
                let reader = reader.parse().ok().and_then(|reader| Some((reader, site.address(&reader)?)));
                // It may have asked for the file a moment ago.
                let is_early: fn(&Answer) -> bool = |answer| matches!(answer, Answer::NotYet | Answer::None);
                let of_reader = match reader {
                    Some(reader) => self.ask_holder(reader, ask.wish(0), is_early).await,
                    None => None,
                };
                asked = match of_reader {
                    Some(held) => Ok(held),
                    // The second question is answered with the file.
                    None => self.ask_member((key, address), wish).await,
                };
            }
            match asked {
                Ok((line, Answer::File { head, age })) => match self.take(ask, *head, age, line).await {
                    Some(landed) => return Some(Ok(landed)),
                    None => site.shun(&key, false, "its copy is not the file, or does not fit on the disk"),
                },
                // The clients get their own answers.
                Ok((_, Answer::Own)) => return Some(Ok(Landed::Own(Arc::default()))),
                Ok((_, Answer::Busy(seconds))) => {
                    ask.upstream.config.urls.iter().for_each(|url| self.pause(url.as_str(), seconds));
                    let retry_after = Some(Duration::from_secs(seconds));
                    return Some(Err(Failure { retry_after, ..Failure::new(503, "the origin is busy") }));
                }
                Ok((_, Answer::Failed(reason))) => tracing::debug!("a member cannot get '{}': {reason}", ask.urls[0]),
                Ok(_) | Err(_) => {}
            }
        }
        None
    }
    /// Whether the config permits a member to vouch for copies of this origin.
    fn is_believed(&self, ask: &Ask, member: &PublicKey) -> bool {
        let name = neighbours::name_of(&ask.upstream.config, "head", &ask.file);
        name.is_some_and(|name| match self.api.believed(&Reference::from(name)) {
            Ok(only) => only.is_none_or(|only| only == *member),
            Err(_) => false,
        })
    }
    /// Looks for a copy at the members after this one, which were first before it joined.
    pub(super) async fn ask_next(self: &Arc<Self>, ask: &Ask) -> Option<Landed> {
        let (_, after) = self.site.as_ref()?.order(&ask.file);
        for (key, address) in after.into_iter().filter(|(key, _)| self.is_believed(ask, key)).take(NEXT_MAX) {
            if let Some((line, Answer::File { head, age })) =
                self.ask_holder((key, address), ask.wish(0), |_| false).await
                && age < head.lifetime
                && let Some(landed) = self.take(ask, *head, age, line).await
            {
                return Some(landed);
            }
        }
        None
    }
    async fn ask_member(&self, (key, address): Place, wish: FileWish) -> Result<(Line, Answer), String> {
        let site = self.site.as_ref().ok_or("there is no site")?;
        let asked = Line::ask(&self.api, address, &site.question(Wish::File(wish))).await;
        let asked =
            asked.and_then(|asked| if asked.0.key == key { Ok(asked) } else { Err("its key is another one".into()) });
        asked.inspect_err(|reason| site.shun(&key, false, reason))
    }
    /// Asks a member for a copy that it holds, and again for a while after an answer that `is_early`.
    async fn ask_holder(&self, place: Place, wish: FileWish, is_early: fn(&Answer) -> bool) -> Option<(Line, Answer)> {
        let wish = FileWish { is_held: true, ..wish };
        for _ in 0..AGAIN_MAX {
            match self.ask_member(place, wish.clone()).await.ok()? {
                held @ (_, Answer::File { .. }) => return Some(held),
                (_, answer) if is_early(&answer) => tokio::time::sleep(AGAIN).await,
                _ => return None,
            }
        }
        None
    }
    /// The bytes from `at` on of another member that has them, or gets them from the origin.
    pub(super) async fn ask_holders(&self, ask: &Ask, head: &Head, at: u64) -> Option<Line> {
        let site = self.site.as_ref().filter(|_| !ask.is_private())?;
        let (before, after) = site.order(&ask.file);
        // Those before this one ask the origin first.
        let count = before.len();
        for (at_all, member) in before.into_iter().chain(after).enumerate() {
            if !self.is_believed(ask, &member.0) {
                continue;
            }
            let is_early: fn(&Answer) -> bool =
                if at_all < count { |answer| matches!(answer, Answer::NotYet) } else { |_| false };
            let held = self.ask_holder(member, ask.wish(at), is_early).await;
            if let Some((line, Answer::File { head: theirs, .. })) = held {
                let of = |head: &Head| (head.size, head.field("etag").map(String::from), head.status);
                if of(&theirs) == of(head) {
                    return Some(line);
                }
            }
        }
        None
    }
    /// Takes the copy of a member, and begins to read its body.
    async fn take(self: &Arc<Self>, ask: &Ask, head: Head, age: u64, line: Line) -> Option<Landed> {
        let now = wall_clock().as_secs();
        let at = now.saturating_sub(age);
        // With equal clocks all members publish the same version.
        let at = if head.at.abs_diff(at) <= 2 && head.at <= now { head.at } else { at };
        let proof =
            policy::digest_of_path(&ask.path).or(policy::digest_of_fields(ask.upstream.config.kind, &head.map()));
        let proof = proof.filter(|_| head.status == 200);
        if head.url != ask.urls[0].as_str()
            || !head.fits(&ask.fields)
            || proof.is_some() && head.digest.is_some() && proof != head.digest
        {
            return None;
        }
        let verified = if proof.is_some() { Verified::Digest } else { Verified::Publisher };
        let head = Head { at, verified, ..head };
        let how = "fwd=miss; detail=site";
        if ask.method == Method::HEAD {
            let copy = Copy { head: Head { digest: None, ..head }, body: None };
            self.shelf.keep(&ask.key, copy.clone());
            return Some(Landed::Copy(copy, how));
        }
        let config = &ask.upstream.config;
        if let (Some(digest), 200) = (&head.digest, head.status) {
            if let Some(copy) = self.shelved(ask, &head, Some(digest)) {
                return Some(Landed::Copy(copy, how));
            }
            let is_large = head.size.is_some_and(|size| size >= LARGE_BYTES);
            let name =
                neighbours::name_of(config, "sha256", digest).filter(|_| is_large && !config.peer_patience.is_zero());
            if let Some(name) = name
                && neighbours::is_published(&self.api, &name, config.peer_patience).await
                && let Some(copy) = self.adopt(ask, head.clone())
            {
                return Some(Landed::Copy(copy, "fwd=miss; detail=neighbour"));
            }
        }
        if head.size.is_some_and(|size| !self.reserve(size)) {
            return None;
        }
        let copy = self.fill(ask, Head { digest: None, ..head }, proof, Source::Member(Box::new(line)));
        Some(Landed::Copy(copy, how))
    }

    /// Answers a member that asks for a file.
    pub(super) async fn answer_file(self: &Arc<Self>, line: &mut Line, wish: FileWish) -> Result<(), String> {
        let api = Arc::clone(&self.api);
        let failed = |error: std::io::Error| error.to_string();
        let Some(ask) = self.ask_of(&wish) else { return line.answer(&api, &Answer::None).await.map_err(failed) };
        let answer = match wish.is_held {
            true => self.held(&ask, wish.from),
            false => {
                let mut request = HeaderMap::new();
                if wish.is_anew {
                    request.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                }
                let choice = self.choose(&ask, self.copy_for(&ask), &request);
                match line.wait_for(&api, choice).await.map_err(failed)? {
                    Ok(Landed::Copy(copy, _)) => self.reader_before(&ask, &copy, line.key).map_or(Ok(copy), Err),
                    Ok(Landed::Own(_)) => Err(Answer::Own),
                    Err(Failure { status: 503, retry_after: Some(left), .. }) => Err(Answer::Busy(left.as_secs() + 1)),
                    Err(failure) => Err(Answer::Failed(failure.reason)),
                }
            }
        };
        let copy = match answer {
            Ok(copy) => copy,
            Err(answer) => return line.answer(&api, &answer).await.map_err(failed),
        };
        let age = copy.head.age().unwrap_or_default().as_secs();
        line.answer(&api, &Answer::File { head: Box::new(copy.head), age }).await.map_err(failed)?;
        let Some(body) = copy.body.filter(|_| !wish.is_head) else {
            return line.send(&api, b'e', b"").await.map_err(failed);
        };
        let mut pieces = body.stream(wish.from..u64::MAX);
        loop {
            match line.wait_for(&api, pieces.recv()).await.map_err(failed)? {
                Some(Ok(bytes)) => line.send(&api, b'd', &bytes).await.map_err(failed)?,
                Some(Err(error)) => return line.send(&api, b'f', error.to_string().as_bytes()).await.map_err(failed),
                None => return line.send(&api, b'e', b"").await.map_err(failed),
            }
        }
    }
    /// The request of a member; `None` if no origin of this gateway has that name.
    fn ask_of(&self, wish: &FileWish) -> Option<Ask> {
        let origin = self.upstreams.iter().position(|of| of.config.name.to_string() == wish.origin)?;
        let mut fields = HeaderMap::new();
        for (name, value) in wish.fields.iter().filter(|(name, _)| FORWARDED.contains(&name.as_str())) {
            fields.append(HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?);
        }
        let target = Target { origin, rest: wish.path.clone(), query: wish.query.clone() };
        target.is_plain().then_some(())?;
        let method = if wish.is_head { Method::HEAD } else { Method::GET };
        let ask = self.ask_for(target, method, &fields).ok()?;
        Some(Ask { is_for_member: true, ..ask })
    }
    /// A copy that this gateway has or reads, with the byte at `from`.
    fn held(&self, ask: &Ask, from: u64) -> Result<Copy, Answer> {
        let copy = self.shelf.find_whole(&ask.file, &ask.fields).ok_or(Answer::None)?;
        let body = copy.body.as_ref().ok_or(Answer::None)?;
        let is_here = body.is_from_origin.load(std::sync::atomic::Ordering::Relaxed) || body.len() > from;
        if is_here || from == 0 { Ok(copy) } else { Err(Answer::NotYet) }
    }
    /// The member that reads a large file which arrives, and that the next reader reads from.
    fn reader_before(&self, ask: &Ask, copy: &Copy, asker: PublicKey) -> Option<Answer> {
        let mut readers = self.readers.lock();
        let arrives = copy.body.as_ref().is_some_and(|body| !body.has_ended());
        if !arrives || copy.head.size.is_none_or(|size| size < LARGE_BYTES) {
            return None;
        }
        let readers = readers.entry(ask.file.clone()).or_default();
        // One that asks again could not read from there.
        if readers.contains(&asker) {
            return None;
        }
        let last = readers.iter().rev().find(|key| self.site.as_ref().is_some_and(|site| site.address(key).is_some()));
        let answer = last.map(|last| Answer::Elsewhere(last.to_string()));
        readers.push(asker);
        answer
    }
}

impl Ask {
    /// This request as a question to a member.
    fn wish(&self, from: u64) -> FileWish {
        FileWish {
            origin: self.upstream.config.name.to_string(),
            path: self.path.clone(),
            query: self.query.clone(),
            is_head: self.method == Method::HEAD,
            fields: texts(&self.fields),
            is_anew: false,
            is_held: false,
            from,
        }
    }
}

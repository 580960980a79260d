//! Limits the requests in progress, and queues the others.
//!
//! Rendezvous nodes answer many hosts that do not know of each other. So each finds its share as TCP does (RFC 5681):
//! the window grows by each answer until one is late or reports overload; then it is halved, at most once for the
//! requests in progress together, and grows by an eighth for each window of answers. A request refused for overload
//! waits again: the request itself is valid, and the application learns of it only if no request succeeds for a long
//! time.
use alloc::{collections::VecDeque, string::ToString};

use tributary_core::{Duration, NodeId, Random, Time};

use super::{Aim, Key, PubSub, PubSubConfig, REQUEST_TIMEOUT, RESOLVER_TIMEOUT, RETRY_INTERVAL, Wish, operation_name};
use crate::wire::{Answer, Rejection};

/// Requests in progress at the beginning.
const WINDOW_FIRST: usize = 64;
/// Requests that may be in progress at a node that is slow and refuses nothing.
pub(super) const WINDOW_SLOW: usize = 4;
/// Pauses after refusals of the only request in progress double up to this multiple of [`RETRY_INTERVAL`].
const PAUSES_MAX: u32 = 8;

/// Classes of requests, the most urgent first; each waits for those above.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    /// A client waits for the answer.
    Urgent,
    /// Withdrawals of publications.
    Withdrawal,
    /// Publications.
    Bulk,
}

impl Class {
    const ALL: [Class; 3] = [Class::Urgent, Class::Withdrawal, Class::Bulk];

    pub(super) fn of(key: &Key, wish: &Wish) -> Class {
        match key {
            Key::Subscription(..) | Key::Listing(_) => Class::Urgent,
            Key::Item(_) | Key::Scope(_) if wish.aim == Aim::Withdraw => Class::Withdrawal,
            Key::Item(_) | Key::Scope(_) => Class::Bulk,
        }
    }
}

/// The window of requests in progress, and the wishes queued for it.
#[derive(Debug, Default)]
pub(super) struct Flow {
    backlog: [VecDeque<Key>; 3],
    window: usize,
    /// Below this window it grows by each answer, beyond it by an eighth for a window of them.
    slow_start_end: usize,
    answered: usize,
    /// Requests sent before then do not count: the window was already halved for that period.
    halved_at: Time,
    /// Refusals of the only request in progress, in a row; until when nothing that may wait is sent therefore.
    refusals: u32,
    /// When something may be sent again after a pause.
    pub paused_until: Option<Time>,
    /// The shortest time until an answer, of the rendezvous node in use.
    answer_min: Option<Duration>,
    /// When something was last granted.
    granted_at: Option<Time>,
}

impl Flow {
    pub(super) fn new(config: &PubSubConfig) -> Flow {
        Flow { window: WINDOW_FIRST.min(config.requests_max), slow_start_end: usize::MAX, ..Flow::default() }
    }
    /// How many wishes wait.
    pub(super) fn waiting(&self) -> usize {
        self.backlog.iter().map(VecDeque::len).sum()
    }
    /// Whether nothing has been granted for as long as the application should wait without a notice.
    pub(super) fn is_stuck(&self, now: Time) -> bool {
        self.granted_at.is_none_or(|granted| now.since(granted) >= RESOLVER_TIMEOUT)
    }
    /// The client switches to another rendezvous node.
    pub(super) fn clear(&mut self) {
        self.answer_min = None;
        self.backlog.iter_mut().for_each(VecDeque::clear);
    }
    /// How many requests may be in progress when another one is sent. Publications leave a quarter of the limit to
    /// others.
    fn room(&self, config: &PubSubConfig, class: Class) -> usize {
        let max = config.requests_max;
        match class {
            Class::Urgent => max,
            Class::Withdrawal | Class::Bulk if self.paused_until.is_some() => 0,
            Class::Withdrawal => self.window.min(max),
            Class::Bulk => self.window.min(max - max / 4),
        }
    }
    fn grow(&mut self, config: &PubSubConfig) {
        self.answered += 1;
        if self.window < self.slow_start_end {
            self.window = (self.window + 1).min(config.requests_max);
        } else if self.answered >= self.window {
            self.answered = 0;
            // Answers are fast: a large share that becomes free is taken in some round trips, not in a thousand.
            self.window = (self.window + 1 + self.window / 8).min(config.requests_max);
        }
    }
    /// Halves the window for a request that was sent at `sent`; false if that was already done for its period.
    pub(super) fn halve(&mut self, now: Time, sent: Time, least: usize, config: &PubSubConfig) -> bool {
        if sent < self.halved_at {
            return false;
        }
        self.halved_at = now;
        self.window = (self.window / 2).max(least).min(config.requests_max);
        self.slow_start_end = self.window;
        self.answered = 0;
        true
    }
    /// The node has refused the only request in progress, because of the load of other hosts.
    fn pause(&mut self, now: Time, node: NodeId) {
        let doublings = (1 << self.refusals.min(16)).min(PAUSES_MAX);
        self.refusals += 1;
        // Hosts that were refused together must not return together.
        let spread = Random::new(node.0, now.since(Time::ZERO).as_nanos() as u64).below(256) as u32;
        let pause = RETRY_INTERVAL * doublings;
        self.paused_until = Some(now + pause / 2 + pause * spread / 256);
    }
}

impl PubSub {
    /// Whether the window admits the request of a wish; if not, it waits.
    pub(super) fn has_room(&mut self, key: &Key) -> bool {
        let Some(wish) = self.wishes.get(key) else { return false };
        let class = Class::of(key, wish);
        if wish.request.is_some() || self.requests.len() < self.flow.room(&self.config, class) {
            return true;
        }
        self.timers.stop(key);
        self.flow.backlog[class as usize].push_back(key.clone());
        false
    }

    /// Moves the window by the answer to a request that was sent at `sent` and was overdue or not.
    pub(super) fn on_answered(&mut self, now: Time, sent: Time, was_overdue: bool, answer: &Answer) {
        let time = now.since(sent);
        let least = self.flow.answer_min.map_or(time, |least| least.min(time));
        if matches!(answer, Answer::Rejected(rejection) if rejection.is_busy()) {
            if self.flow.halve(now, sent, 1, &self.config) && self.flow.window == 1 {
                self.flow.pause(now, self.config.node);
            }
            return;
        }
        self.flow.refusals = 0;
        self.flow.granted_at = Some(now);
        self.flow.answer_min = Some(least);
        if was_overdue || time > (REQUEST_TIMEOUT / 2).max(least * 3) {
            self.flow.halve(now, sent, WINDOW_SLOW, &self.config);
        } else if time < (REQUEST_TIMEOUT / 4).max(least * 2) {
            self.flow.grow(&self.config);
        }
    }

    /// The rendezvous node has reached its limit of requests: the wish waits again, ahead of its class, unless no
    /// request gets through.
    pub(super) fn on_busy(&mut self, now: Time, key: &Key, rejection: Rejection) {
        let Some(wish) = self.wishes.get_mut(key) else { return };
        let operation = operation_name(key, &wish.aim);
        let class = Class::of(key, wish);
        let is_obstacle = class == Class::Urgent || self.flow.is_stuck(now);
        let is_unmet = now.since(wish.unmet_since) >= RESOLVER_TIMEOUT;
        let tells = is_obstacle && is_unmet && !core::mem::replace(&mut wish.complained, true);
        if class == Class::Urgent {
            self.timers.set(key.clone(), now + RETRY_INTERVAL / 2);
        } else {
            self.timers.stop(key);
            self.flow.backlog[class as usize].push_front(key.clone());
        }
        if tells {
            let reason = alloc::format!("{rejection}; still trying");
            self.events.push_back(super::ResolverEvent::Rejected { name: key.name().to_string(), operation, reason });
        }
    }

    /// Ends a pause when its time has passed.
    pub(super) fn resume(&mut self, now: Time) {
        if self.flow.paused_until.take_if(|until| *until <= now).is_some() {
            self.send_backlog(now);
        }
    }

    /// Sends queued wishes, as far as the window allows.
    pub(super) fn send_backlog(&mut self, now: Time) {
        for class in Class::ALL {
            while self.requests.len() < self.flow.room(&self.config, class)
                && let Some(key) = self.flow.backlog[class as usize].pop_front()
            {
                if self.wishes.get(&key).is_some_and(|wish| wish.request.is_none()) {
                    self.send(now, key);
                }
            }
        }
    }
}

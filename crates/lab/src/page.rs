//! Loading a web page: its objects, the computations on them, and the dependencies between both (as Epload replays it;
//! X. Wang et al., NSDI 2014). Sans-I/O: the caller fetches the objects.
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};
use tributary_core::{Duration, Time};

/// A page.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// The site's name.
    pub name: String,
    activities: Vec<Activity>,
    /// Per activity: the activities that depend on it.
    edges: Vec<Vec<(usize, After)>>,
    /// Per activity: how many edges lead to it.
    waits: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Activity {
    /// Bytes to fetch.
    Object(u64),
    Computation(Duration),
}

/// The event of an activity that another one waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    Done,
    FirstBytes,
    Start(Duration),
}

/// The forty pages of the experiment, see `data/SOURCE.md`.
///
/// # Panics
/// If the file that was built in is damaged.
pub fn pages() -> Vec<Page> {
    parse(include_str!("../data/webpages.txt")).unwrap_or_else(|line| panic!("line {line} of the pages makes no sense"))
}

/// Reads pages; the error is the number of a line.
fn parse(text: &str) -> Result<Vec<Page>, usize> {
    let mut pages: Vec<Page> = Vec::new();
    for (number, line) in (1_usize..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let page = pages.last_mut();
        let read = match (words.as_slice(), page) {
            ([] | ["#", ..], _) => Some(()),
            (["page", name], _) => {
                pages.push(Page { name: (*name).into(), ..Page::default() });
                Some(())
            }
            (["o", bytes], Some(page)) => bytes.parse().ok().map(|bytes| page.add(Activity::Object(bytes))),
            (["c", ms], Some(page)) => duration(ms).map(|time| page.add(Activity::Computation(time))),
            ([">", from, to, after], Some(page)) => page.join(from, to, after),
            _ => None,
        };
        read.ok_or(number)?;
    }
    Ok(pages)
}
fn duration(milliseconds: &str) -> Option<Duration> {
    let milliseconds: f64 = milliseconds.parse().ok()?;
    Duration::try_from_secs_f64(milliseconds / 1e3).ok()
}

impl Page {
    fn add(&mut self, activity: Activity) {
        self.activities.push(activity);
        self.edges.push(Vec::new());
        self.waits.push(0);
    }
    fn join(&mut self, from: &str, to: &str, after: &str) -> Option<()> {
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        let after = match after {
            "d" => After::Done,
            "f" => After::FirstBytes,
            time => After::Start(duration(time)?),
        };
        *self.waits.get_mut(to)? += 1;
        self.edges.get_mut(from)?.push((to, after));
        Some(())
    }
    /// Its objects: number and bytes.
    pub fn objects(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.activities.iter().enumerate().filter_map(|(number, activity)| match activity {
            Activity::Object(bytes) => Some((number, *bytes)),
            Activity::Computation(_) => None,
        })
    }
    /// Bytes of all objects.
    pub fn bytes(&self) -> u64 {
        self.objects().map(|(_, bytes)| bytes).sum()
    }
    /// The minimum load time: the first byte of each object takes `round_trip`, the rest arrives at `bytes_per_second`
    /// as if the object were alone.
    pub fn bound(self: &Arc<Self>, round_trip: Duration, bytes_per_second: f64) -> Duration {
        let mut load = PageLoad::new(Arc::clone(self));
        load.start(Time::ZERO);
        let (mut first_bytes, mut ends) = (BTreeSet::new(), BTreeSet::new());
        let mut now = Time::ZERO;
        while load.ended().is_none() {
            while let Some(object) = load.poll_fetch() {
                let Activity::Object(bytes) = self.activities[object] else { continue };
                let first = now + round_trip;
                first_bytes.insert((first, object));
                ends.insert((first + Duration::from_secs_f64(bytes as f64 / bytes_per_second), object));
            }
            let due = [first_bytes.first(), ends.first()].into_iter().flatten().map(|(due, _)| *due);
            let Some(next) = due.chain(load.poll_timeout()).min() else { break };
            now = next;
            load.handle_timeout(now);
            while let Some(object) = pop_due(&mut first_bytes, now) {
                load.on_first_bytes(now, object);
            }
            while let Some(object) = pop_due(&mut ends, now) {
                load.on_object(now, object);
            }
        }
        load.ended().map_or(Duration::ZERO, |end| end.since(Time::ZERO))
    }
}

fn pop_due(waiting: &mut BTreeSet<(Time, usize)>, now: Time) -> Option<usize> {
    let first = *waiting.first().filter(|(due, _)| *due <= now)?;
    waiting.remove(&first);
    Some(first.1)
}

/// A page that is being loaded.
///
/// After [`PageLoad::start`], each of `on_…` and [`PageLoad::handle_timeout`], fetch the objects that
/// [`PageLoad::poll_fetch`] returns.
#[derive(Clone, Debug)]
pub struct PageLoad {
    page: Arc<Page>,
    waits: Vec<u32>,
    first_bytes: Vec<bool>,
    to_fetch: VecDeque<usize>,
    /// Ends of computations, and edges that hold some time after a start.
    timers: BTreeSet<(Time, Due)>,
    objects_left: usize,
    ended: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    End(usize),
    /// The place of an edge in its list.
    Edge(usize, usize),
}

impl PageLoad {
    /// A load that has not started.
    pub fn new(page: Arc<Page>) -> Self {
        PageLoad {
            waits: page.waits.clone(),
            first_bytes: vec![false; page.activities.len()],
            to_fetch: VecDeque::new(),
            timers: BTreeSet::new(),
            objects_left: page.objects().count(),
            ended: None,
            page,
        }
    }
    /// Begins with the first object.
    pub fn start(&mut self, now: Time) {
        self.begin(now, 0);
    }
    /// The first bytes of an object have arrived.
    pub fn on_first_bytes(&mut self, now: Time, object: usize) {
        if !std::mem::replace(&mut self.first_bytes[object], true) {
            self.release(now, object, After::FirstBytes);
        }
    }
    /// An object has arrived.
    pub fn on_object(&mut self, now: Time, object: usize) {
        self.on_first_bytes(now, object);
        self.objects_left -= 1;
        if self.objects_left == 0 {
            self.ended = Some(now);
        }
        self.release(now, object, After::Done);
    }
    /// Runs the activities that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((due, what)) = self.timers.first().copied().filter(|(due, _)| *due <= now) {
            self.timers.pop_first();
            match what {
                Due::End(activity) => self.release(due, activity, After::Done),
                Due::Edge(from, edge) => self.hold(due, self.page.edges[from][edge].0),
            }
        }
    }
    /// An object to fetch now.
    pub fn poll_fetch(&mut self) -> Option<usize> {
        self.to_fetch.pop_front()
    }
    /// When to call [`PageLoad::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(due, _)| *due)
    }
    /// When the last byte of the last object arrived.
    pub fn ended(&self) -> Option<Time> {
        self.ended
    }

    fn begin(&mut self, now: Time, activity: usize) {
        match self.page.activities[activity] {
            Activity::Object(_) => self.to_fetch.push_back(activity),
            Activity::Computation(time) => {
                self.timers.insert((now + time, Due::End(activity)));
            }
        }
        for (index, (_, after)) in self.page.edges[activity].iter().enumerate() {
            if let After::Start(time) = after {
                self.timers.insert((now + *time, Due::Edge(activity, index)));
            }
        }
    }
    fn release(&mut self, now: Time, activity: usize, what: After) {
        let page = Arc::clone(&self.page);
        for (to, _) in page.edges[activity].iter().filter(|(_, after)| *after == what) {
            self.hold(now, *to);
        }
    }
    /// One edge to `activity` holds.
    fn hold(&mut self, now: Time, activity: usize) {
        self.waits[activity] -= 1;
        if self.waits[activity] == 0 {
            self.begin(now, activity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forty_pages_load_to_their_last_object() {
        let pages = pages();
        assert_eq!(pages.len(), 40);
        for page in pages {
            let page = Arc::new(page);
            let fast = page.bound(Duration::ZERO, 1e12);
            let slow = page.bound(Duration::from_millis(100), 1e12);
            assert!(slow >= fast + Duration::from_millis(100), "{}", page.name);
        }
    }

    #[test]
    fn what_waits_for_what_is_kept() {
        let text = "page x\no 1000\nc 10\no 500\no 700\n> 0 1 f\n> 1 2 d\n> 0 3 5\n";
        let page = Arc::new(parse(text).expect("it is right").remove(0));
        let mut load = PageLoad::new(page);
        let at = Time::from_millis;
        load.start(at(0));
        assert_eq!((load.poll_fetch(), load.poll_fetch(), load.poll_timeout()), (Some(0), None, Some(at(5))));
        load.handle_timeout(at(5));
        assert_eq!(load.poll_fetch(), Some(3), "5 ms after the first began");
        load.on_first_bytes(at(20), 0);
        assert_eq!(load.poll_timeout(), Some(at(30)));
        load.on_object(at(25), 0);
        load.handle_timeout(at(30));
        assert_eq!(load.poll_fetch(), Some(2));
        load.on_object(at(40), 3);
        assert_eq!(load.ended(), None);
        load.on_object(at(50), 2);
        assert_eq!(load.ended(), Some(at(50)));
    }

    #[test]
    fn nonsense_is_found_by_its_line() {
        assert_eq!(parse("page x\no 5\n> 0 7 d\n"), Err(3));
        assert_eq!(parse("o 5\n"), Err(1));
    }
}

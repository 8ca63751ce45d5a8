//! Steps that wait, and profiles.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use rig::{Point, PointFuture, Profile, ValueSpan};

use crate::log::{Key, Outcome};
use crate::plan::Kind;
use crate::player::{Numbers, Player};
use crate::primitive::{block_on, pause};

impl Player {
    fn answered(&self, key: Key, result: &rig::Result<()>, what: &str) -> Outcome {
        let outcome = self.told(&format!("{what} {}:{}", key.0, key.1), result);
        self.not_invalid(what, &outcome);
        self.world.log.answered(key, &result.clone().map(|()| true));
        outcome
    }

    pub fn wait(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let (point, key) = self.world.some_point(n.next())?;
        Some(self.answered(key, &point.wait(), "wait"))
    }

    pub fn wait_all(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let (points, keys) = self.some_points(3, n);
        let result = Point::wait_all(&points);
        let outcome = self.told("wait for several", &result);
        if result.is_ok() {
            keys.iter().for_each(|key| self.world.log.answered(*key, &Ok(true)));
        }
        Some(outcome)
    }

    pub fn reached(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let (point, key) = self.world.some_point(n.next())?;
        // Known before: while the call returns a false, another thread may see the point reached.
        let known = self.world.log.answer(key);
        let result = point.reached();
        match (&result, known) {
            (Ok(false), Some(known)) => {
                self.world.log.broken("C31", &format!("point {}:{} was {known:?}, and is not reached", key.0, key.1));
            }
            (Ok(false), None) => {}
            _ => self.world.log.answered(key, &result),
        }
        Some(self.told(&format!("reached {}:{} ({:?})", key.0, key.1, result.as_ref().ok()), &result))
    }

    pub fn await_one(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let (point, key) = self.world.some_point(n.next())?;
        let result = block_on(async move { point.await });
        Some(self.answered(key, &result, "await"))
    }

    /// Awaits the first of two; the other's wait is cancelled.
    pub fn select(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let (points, keys) = self.some_points(2, n);
        let futures: Vec<PointFuture> = points.iter().map(|point| point.into_future()).collect();
        if futures.is_empty() {
            return None;
        }
        let (first, result) = block_on(First(futures));
        Some(self.answered(keys[first], &result, "await one of two"))
    }

    pub fn let_time_pass(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        (0..1 + n.below(8)).for_each(|_| pause());
        Some(Outcome::Done)
    }

    pub fn profile(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let inside = [Kind::Launch, Kind::Copy, Kind::Wait, Kind::Read, Kind::Memset, Kind::Launch, Kind::Borrow];
        let result = Profile::take(|| {
            for _ in 0..2 + n.below(3) {
                let kind = inside[n.below(inside.len())];
                self.step(kind, n);
            }
        });
        let outcome = self.told("profile", &result);
        self.not_invalid("a profile", &outcome);
        if let Ok(((), profile)) = result {
            self.check_profile(&profile);
        }
        Some(outcome)
    }

    fn check_profile(&self, profile: &Profile) {
        let wrong = |value: &ValueSpan, how: &str| {
            self.world.log.broken("C22", &format!("the profile of {} {}: {how}", value.device, value.value))
        };
        for value in &profile.values {
            if value.submit.end < value.submit.start {
                wrong(value, "its submit ended before it began");
            }
            let Some(ran) = value.ran else { continue };
            if ran.end < ran.start || ran.start < value.submit.start {
                wrong(value, "it ran before its submit, or backwards");
            }
            if ran.end > profile.took {
                wrong(value, "it ended after the profile did");
            }
            let mut last = ran.start;
            for part in value.parts.iter().filter_map(|part| part.ran) {
                if part.start < last || part.end < part.start || part.end > ran.end {
                    wrong(value, "its parts are not one after the other inside it");
                }
                last = part.end;
            }
            let before = |other: &&ValueSpan| {
                let follows = value.follows.contains(&(other.timeline, other.value));
                follows || (other.timeline == value.timeline && other.value < value.value)
            };
            for other in profile.values.iter().filter(before) {
                if other.ran.is_some_and(|other| other.end > ran.start) {
                    wrong(value, &format!("it began before {} {} ended", other.device, other.value));
                }
            }
        }
        if let Some(span) = profile.host.iter().find(|span| span.ran.end < span.ran.start) {
            self.world.log.broken("C22", &format!("a span of the host runs backwards: {span:?}"));
        }
    }
}

/// The first of several futures.
struct First(Vec<PointFuture>);

impl Future for First {
    type Output = (usize, rig::Result<()>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(usize, rig::Result<()>)> {
        for (index, future) in self.0.iter_mut().enumerate() {
            if let Poll::Ready(answer) = Pin::new(future).poll(context) {
                return Poll::Ready((index, answer));
            }
        }
        Poll::Pending
    }
}

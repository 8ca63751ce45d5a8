//! Traces as people look at them: a pipeline over three devices whose profile shows that they were at work at once, and the page
//! of such a profile in a browser.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod browser;
mod page;
mod pipeline;

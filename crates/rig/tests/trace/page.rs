//! The page of a profile, in a browser: it holds every span, answers to hands, and asks nothing of any network.

use std::collections::HashSet;
use std::sync::OnceLock;

use rig::Profile;
use serde_json::Value;

use crate::browser::{How, Opened, open};
use crate::pipeline::{ITEMS, STAGES, with_all_arrows};

const WIDE: How<'_> = How { hash: "", window: (1200, 800), dark: false, script: "return null;" };

fn html(profile: &Profile) -> String {
    let mut bytes = Vec::new();
    profile.write_html(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The page of the pipeline.
fn pipeline() -> String {
    html(&with_all_arrows())
}

/// What a hand does on the page, step by step, and what is seen then.
const HANDS: &str = r"
    const place = s => {
      const box = canvas.getBoundingClientRect();
      const clientX = Math.round(box.left + (x(s.ts, left()) + x(end(s), left())) / 2);
      return { clientX, clientY: Math.round(box.top + s.row.y + s.lane * LANE + 8) };
    };
    const hand = (name, more) => canvas.dispatchEvent(new PointerEvent(name, { pointerId: 1, bubbles: true, ...more }));
    const key = (of, name) => of.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
    const named = name => spans.find(s => s.name === name && s.tid === 0 && s.pid !== 0);
    const view = () => [from, to];

    const holds = {
      spans: spans.length, lanes: list.reduce((n, row) => n + row.lanes.reduce((m, lane) => m + lane.length, 0), 0),
      rows: list.map(row => row.title), arrows: arrows.length, joined: arrows.filter(a => a.before && a.after).length,
      seen: spans.filter(s => s.dur > 0 && under(place(s)) !== null).length, long: spans.filter(s => s.dur > 0).length };

    const points = {}, of = named('transform');
    points.value = of.args.value;
    hand('pointermove', place(of));
    points.shown = [tip.style.display, tip.textContent];
    hand('pointerleave', {});
    points.hidden = tip.style.display;
    hand('pointerdown', place(of));
    hand('pointerup', place(of));
    points.said = element('picked').textContent;
    key(canvas, 'Escape');
    points.after = element('picked').textContent;

    const views = { all: view() }, middle = place(named('deliver')), before = timeAt(middle);
    canvas.dispatchEvent(new WheelEvent('wheel', { ...middle, deltaY: -400, cancelable: true, bubbles: true }));
    views.wheel = view(), views.under = [before, timeAt(middle)];
    hand('pointerdown', { clientX: 600, clientY: 100 });
    hand('pointermove', { clientX: 500, clientY: 100 });
    hand('pointerup', { clientX: 500, clientY: 100 });
    views.drag = view(), views.picked = picked;
    key(canvas, '+');
    views.plus = view(), views.hash = location.hash;
    key(canvas, '0');
    views.zero = view(), views.none = location.hash;
    element('out').click();
    views.out = view();
    element('all').click();

    const box = element('find'), finds = { picks: [] };
    box.value = 'STOR';
    box.dispatchEvent(new Event('input'));
    finds.count = element('found').textContent, finds.found = found.length;
    for (let n = 0; n < 3; n++) {
      key(box, 'Enter');
      finds.picks.push([picked.name, picked.number]);
    }
    finds.hash = location.hash;
    box.value = '';
    box.dispatchEvent(new Event('input'));
    key(canvas, 'Escape');

    return { holds, points, views, finds, asked: performance.getEntriesByType('resource').map(of => of.name),
             policy: document.querySelector('meta[http-equiv]').content, failed: document.documentElement.dataset.failed ?? '' };
";

/// The page after all that; `None` where there is no browser.
fn used() -> Option<&'static Opened> {
    static USED: OnceLock<Option<Opened>> = OnceLock::new();
    let used = USED.get_or_init(|| open(&pipeline(), How { script: HANDS, ..WIDE })).as_ref();
    if used.is_none() {
        println!("skipped: no Chromium");
    }
    used
}

fn texts(of: &Value) -> Vec<&str> {
    of.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn numbers(of: &Value) -> Vec<f64> {
    of.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Promise C22.
#[test]
fn the_page_holds_every_row_and_span_and_fails_nowhere() {
    let Some(used) = used() else { return };
    let holds = &used.answer["holds"];
    let mut trace = Vec::new();
    with_all_arrows().write_chrome_trace(&mut trace).unwrap();
    let trace: Value = serde_json::from_slice(&trace).unwrap();
    let spans = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").count();
    assert_eq!((&holds["spans"], &holds["lanes"]), (&spans.into(), &spans.into()));
    assert_eq!((&holds["arrows"], &holds["joined"]), (&(2 * ITEMS).into(), &(2 * ITEMS).into()));
    assert_eq!(holds["seen"], holds["long"], "each is where the pointer finds it");
    let rows = texts(&holds["rows"]);
    for row in ["CORES #1 · values", "CORES #2 · values", "MEMORY · values", "MEMORY · queue 0"] {
        assert!(rows.contains(&row), "{row} of {rows:?}");
    }
    // The numbers below: the rows with their names, and how often.
    let line = |name: &str| used.dom.contains(&format!("</i>{name}</td><td>{ITEMS}</td>"));
    assert!(STAGES.into_iter().all(line), "{}", used.dom);
    assert!(used.dom.contains(" spans of 3 devices and the host, "));
    assert_eq!(used.answer["failed"], "");
}

#[test]
fn the_page_asks_nothing_of_any_network_and_may_not() {
    assert!(!pipeline().contains("http://") && !pipeline().contains("https://"));
    let Some(used) = used() else { return };
    assert_eq!(used.answer["asked"], Value::Array(vec![]));
    assert!(used.answer["policy"].as_str().unwrap().starts_with("default-src 'none';"));
}

#[test]
fn the_pointer_over_a_span_shows_what_it_is_and_a_click_what_it_waited_for() {
    let Some(used) = used() else { return };
    let points = &used.answer["points"];
    let shown = points["shown"][1].as_str().unwrap();
    assert_eq!((points["shown"][0].as_str(), points["hidden"].as_str()), (Some("block"), Some("none")));
    let value = format!("\nvalue: {}\n", points["value"]);
    for due in ["transform\nCORES #2 · values\nfrom ", " to ", &value, "bytes: 256"] {
        assert!(shown.contains(due), "{due:?} of {shown:?}");
    }
    let said = points["said"].as_str().unwrap();
    assert!(said.starts_with(shown), "{said:?}");
    assert!(said.contains("\nfollows deliver (CORES #1 · values, value "), "{said:?}");
    assert!(said.contains("\nis followed by store (MEMORY · values, value "), "{said:?}");
    assert_eq!(points["after"], "No span is picked.");
}

#[test]
fn wheel_drag_and_keys_zoom_and_move() {
    let Some(used) = used() else { return };
    let views = &used.answer["views"];
    let view = |name: &str| numbers(&views[name]);
    let width = |name: &str| view(name)[1] - view(name)[0];
    let near = |one: f64, other: f64| (one - other).abs() < 1e-6 * width("all");
    assert!(near(width("wheel"), width("all") / std::f64::consts::E), "{views}");
    assert!(near(view("under")[0], view("under")[1]), "what is under the pointer stays: {views}");
    assert!(view("drag")[0] > view("wheel")[0] && near(width("drag"), width("wheel")), "{views}");
    assert!(views["picked"].is_null(), "a drag is no click");
    assert!(near(width("plus"), width("wheel") / 2.0), "{views}");
    assert_eq!((view("zero"), views["none"].as_str()), (view("all"), Some("")));
    assert!(near(width("out"), 2.0 * width("all")), "{views}");
}

#[test]
fn what_is_looked_for_is_counted_and_picked_in_turn() {
    let Some(used) = used() else { return };
    let finds = &used.answer["finds"];
    // The queue's and the value's.
    assert_eq!(finds["found"], 2 * ITEMS);
    assert_eq!(finds["count"], format!("{} of {}", 2 * ITEMS, used.answer["holds"]["spans"]));
    let picks = finds["picks"].as_array().unwrap();
    assert!(picks.iter().all(|pick| pick[0] == "store"));
    assert_eq!(picks.iter().map(|pick| pick[1].as_u64()).collect::<HashSet<_>>().len(), 3, "one after the other");
}

#[test]
fn the_address_brings_a_view_back_here_on_dark_paper() {
    let Some(used) = used() else { return };
    let hash = |of: &str| used.answer[of]["hash"].as_str().unwrap().trim_start_matches('#').to_owned();
    let hash = format!("#{}&{}", hash("views"), hash("finds"));
    let script = "
        const answer = { view: [from, to], find: element('find').value, found: found.length, picked: picked.number,
                         failed: document.documentElement.dataset.failed ?? '' };
        location.hash = '';
        restore();
        return answer;";
    let again = open(&pipeline(), How { hash: &hash, script, dark: true, ..WIDE }).unwrap();
    let (view, due) = (numbers(&again.answer["view"]), numbers(&used.answer["views"]["plus"]));
    assert!((view[0] - due[0]).abs() < 0.002 && (view[1] - due[1]).abs() < 0.002, "{view:?} of {hash}");
    let finds = &used.answer["finds"];
    assert_eq!((&again.answer["find"], &again.answer["found"]), (&"STOR".into(), &finds["found"]));
    assert_eq!(again.answer["picked"], finds["picks"][2][1]);
    assert_eq!(again.answer["failed"], "");
    shows(&again, true);
}

#[test]
fn the_page_fits_a_narrow_window() {
    let script =
        "return { page: document.documentElement.scrollWidth, window: innerWidth, titles: left(), canvas: width() };";
    let Some(narrow) = open(&pipeline(), How { window: (420, 800), script, ..WIDE }) else { return };
    let number = |name: &str| narrow.answer[name].as_u64().unwrap();
    assert!(number("page") <= number("window"), "{}", narrow.answer);
    assert!(3 * number("titles") <= number("canvas") + 3, "{}", narrow.answer);
    shows(&narrow, false);
}

#[test]
fn the_page_shows_bars_in_their_colours() {
    let Some(used) = used() else { return };
    shows(used, false);
}

/// Holds that a page is no blank: bars in colours, on paper in the light or in the dark.
#[track_caller]
fn shows(page: &Opened, dark: bool) {
    let all = page.pixels.len();
    let is_paper = |pixel: &&[u8; 3]| pixel.iter().all(|&of| if dark { of < 0x30 } else { of > 0xe0 });
    let paper = page.pixels.iter().filter(is_paper).count() as f64 / all as f64;
    assert!((0.5..0.99).contains(&paper), "dark {dark}: {paper} of it is paper");
    // Bars are neither grey nor paper: the colours of the three stages and of the host's work.
    let is_vivid = |pixel: &&[u8; 3]| pixel.iter().max().unwrap() - pixel.iter().min().unwrap() > 60;
    let colours: HashSet<&[u8; 3]> = page.pixels.iter().filter(is_vivid).collect();
    let bars = page.pixels.iter().filter(is_vivid).count();
    assert!(colours.len() >= 4 && bars * 200 > all, "{} colours, {bars} pixels of {all}", colours.len());
}

#[test]
fn a_page_of_nothing_and_an_address_of_nonsense_fail_nowhere() {
    let script = "return [from, to, spans.length];";
    let how = How { hash: "#from=x&to=&span=-1&find=%00&%E0", script, ..WIDE };
    let Some(empty) = open(&html(&Profile::default()), how) else { return };
    assert_eq!(empty.answer, serde_json::json!([0, 1, 0]));
    assert!(!empty.dom.contains("data-failed") && empty.dom.contains("0 spans of 0 devices and the host"));
}

#[test]
fn a_page_that_breaks_says_so() {
    let broken = pipeline().replace("const starts = new Map(", "const starts = new Missing(");
    let script = "return document.getElementById('failed').textContent;";
    let Some(broken) = open(&broken, How { script, ..WIDE }) else { return };
    assert!(broken.answer.as_str().unwrap().contains("Missing is not defined"), "{}", broken.answer);
    assert!(broken.dom.contains("data-failed"));
}

use svg::node::element::{Group, Rectangle};

use super::draw::{
    COLOURS, FAULT, GREY, INK, RED, RIGHT, colour, rectangle, text, triangle, width, write,
};
use super::items::Item;
use super::panel::Shown;

pub(super) fn legend(shown: &Shown<'_>, top: f64) -> (Group, f64) {
    let mut row = Flow { x: 12.0, y: top, group: Group::new() };
    for (number, name) in shown.names.iter().enumerate().take(COLOURS) {
        row.entry(&format!("{name} is held"), |x, y| {
            Group::new().add(rectangle(x, y - 10.0, 18.0, 12.0, colour(number).0).set("rx", 2))
        });
    }
    if shown.names.len() > COLOURS {
        row.entry("colours repeat for more names", |_, _| Group::new());
    }
    row.entry("waits", |x, y| Group::new().add(swatch(x, y, colour(0).0, 0.18)));
    if shown.items.iter().any(|item| item.lost.is_some()) {
        row.entry("loss reported", |x, y| Group::new().add(triangle(x + 9.0, y - 9.0)));
    }
    for (accepted, label) in [(true, "write accepted"), (false, "write refused")] {
        let is_shown = |item: &Item| item.writes.iter().any(|(_, was)| *was == accepted);
        if shown.items.iter().any(is_shown) {
            row.entry(label, |x, y| write(x + 9.0, y - 4.0, accepted));
        }
    }
    if shown.processes.iter().any(|who| !shown.run.process(who).stops.is_empty()) {
        row.entry("process stopped", |x, y| {
            let hatch = rectangle(x, y - 10.0, 18.0, 12.0, "url(#stopped)");
            Group::new().add(hatch.set("stroke", GREY).set("stroke-width", 0.5))
        });
    }
    if !shown.run.faults.is_empty() || !shown.run.breaks.is_empty() {
        row.entry("fault", |x, y| Group::new().add(swatch(x, y, FAULT, 0.3)));
    }
    if shown.marked.iter().any(|violation| violation.time.is_some()) {
        row.entry("violation", |x, y| Group::new().add(swatch(x, y, RED, 0.22)));
    }
    (row.group, row.y + 14.0)
}

fn swatch(x: f64, y: f64, colour: &str, opacity: f64) -> Rectangle {
    let swatch = rectangle(x, y - 10.0, 18.0, 12.0, colour);
    swatch.set("fill-opacity", opacity).set("stroke", colour)
}

struct Flow {
    x: f64,
    y: f64,
    group: Group,
}

impl Flow {
    fn entry(&mut self, label: &str, sign: impl FnOnce(f64, f64) -> Group) {
        let wide = 24.0 + width(label, 11.0);
        if self.x + wide > RIGHT {
            (self.x, self.y) = (12.0, self.y + 18.0);
        }
        let group = std::mem::replace(&mut self.group, Group::new());
        let label = text(self.x + 24.0, self.y, 11.0, INK, label);
        self.group = group.add(sign(self.x, self.y)).add(label);
        self.x += wide + 16.0;
    }
}

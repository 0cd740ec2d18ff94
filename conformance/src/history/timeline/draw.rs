use svg::node::element::{Circle, Group, Line, Polygon, Rectangle, Text};

pub(super) const WIDTH: f64 = 1_200.0;
pub(super) const LEFT: f64 = 140.0;
pub(super) const RIGHT: f64 = 1_176.0;

pub(super) const INK: &str = "#1b1f24";
pub(super) const GREY: &str = "#6b7280";
pub(super) const FAINT: &str = "#e5e7eb";
pub(super) const RED: &str = "#d0021b";
pub(super) const FAULT: &str = "#b7791f";

pub(super) const COLOURS: usize = 6;
/// Colours of lock names' bars and their texts, for colour-blind readers (Okabe and Ito, 2008).
const NAMES: [(&str, &str); COLOURS] = [
    ("#0072b2", "#ffffff"),
    ("#009e73", "#ffffff"),
    ("#e69f00", INK),
    ("#cc79a7", INK),
    ("#56b4e9", INK),
    ("#7a5195", "#ffffff"),
];

pub(super) fn colour(number: usize) -> (&'static str, &'static str) {
    NAMES[number % NAMES.len()]
}

/// Rounds to a tenth of a pixel, so all machines draw the same SVG.
pub(super) fn place(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.58
}

pub(super) fn text(x: f64, y: f64, size: f64, colour: &str, content: &str) -> Text {
    Text::new(content)
        .set("x", place(x))
        .set("y", place(y))
        .set("font-size", size)
        .set("fill", colour)
}

pub(super) fn bold(text: Text) -> Text {
    text.set("font-weight", "bold")
}

pub(super) fn rectangle(x: f64, y: f64, width: f64, height: f64, fill: &str) -> Rectangle {
    Rectangle::new()
        .set("x", place(x))
        .set("y", place(y))
        .set("width", place(width))
        .set("height", place(height))
        .set("fill", fill)
}

pub(super) fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, width: f64) -> Line {
    Line::new()
        .set("x1", place(x1))
        .set("y1", place(y1))
        .set("x2", place(x2))
        .set("y2", place(y2))
        .set("stroke", colour)
        .set("stroke-width", width)
}

pub(super) fn triangle(x: f64, y: f64) -> Polygon {
    let corners = [(x - 5.0, y), (x + 5.0, y), (x, y + 8.0)];
    let points = corners.map(|(x, y)| format!("{},{}", place(x), place(y))).join(" ");
    Polygon::new().set("points", points).set("fill", INK).set("stroke", "#ffffff")
}

pub(super) fn write(x: f64, y: f64, accepted: bool) -> Group {
    if accepted {
        let dot = Circle::new().set("cx", place(x)).set("cy", place(y)).set("r", 3.0);
        return Group::new().add(dot.set("fill", "#ffffff").set("stroke", INK));
    }
    let (low, high) = ((x - 4.0, y - 4.0), (x + 4.0, y + 4.0));
    let (left, right) = ((x - 4.0, y + 4.0), (x + 4.0, y - 4.0));
    Group::new()
        .add(line(low, high, "#ffffff", 4.0))
        .add(line(left, right, "#ffffff", 4.0))
        .add(line(low, high, INK, 2.0))
        .add(line(left, right, INK, 2.0))
}

pub(super) fn badge(x: f64, y: f64, number: usize) -> Group {
    let circle = Circle::new().set("cx", place(x)).set("cy", place(y)).set("r", 8).set("fill", RED);
    let number = bold(text(x, y + 4.0, 11.0, "#ffffff", &number.to_string()));
    Group::new().add(circle).add(number.set("text-anchor", "middle"))
}

pub(super) fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > most {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

//! Plots of points and lines.

use super::svg::{Anchor, Axis, INK, PALE, Svg, columns, rows, small, width};

#[derive(Debug)]
pub(super) struct PointRow {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) points: Vec<Option<Point>>,
}

#[derive(Debug)]
pub(super) struct Point {
    pub(super) low: f64,
    pub(super) value: f64,
    pub(super) high: f64,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct Points {
    pub(super) title: String,
    pub(super) caption: String,
    pub(super) panels: Vec<String>,
    pub(super) groups: Vec<(String, Vec<PointRow>)>,
    pub(super) base: Option<f64>,
    pub(super) tick: fn(f64) -> String,
}

const ROW: f64 = 17.0;
const GROUP: f64 = 24.0;

impl Points {
    pub(super) fn draw(&self) -> String {
        let rows = || self.groups.iter().flat_map(|(_, rows)| rows);
        let names = rows().map(|row| width(&row.name, 11.0) + 12.0);
        let left = names
            .chain(self.groups.iter().map(|(group, _)| width(group, 12.0)))
            .fold(80.0, f64::max)
            + 16.0;
        let texts = rows().flat_map(|row| &row.points).flatten();
        let beside = texts.map(|value| width(&value.text, 11.0)).fold(30.0, f64::max) + 10.0;
        let panel = 300.0;
        let step = panel + beside + 24.0;
        let (top, height) = (62.0, self.height());
        let bottom = top + height;
        let full = (left + step * self.panels.len() as f64, bottom + 40.0);
        let mut svg = Svg::new();
        svg.text((16.0, 24.0), Anchor::Start, &self.title, "font-size=\"15\" font-weight=\"600\"");
        svg.text((left, bottom + 30.0), Anchor::Start, &self.caption, &small());
        for (index, name) in self.panels.iter().enumerate() {
            let start = left + step * index as f64;
            svg.text((start, 50.0), Anchor::Start, name, "font-size=\"12\" font-weight=\"600\"");
            let values = rows().filter_map(|row| row.points.get(index)?.as_ref());
            let values = values.flat_map(|value| [value.low, value.value, value.high]);
            let axis = Axis::fitting(values.chain(self.base), 20.0, (start, start + panel));
            let ticks: Vec<_> =
                axis.ticks().into_iter().map(|tick| (tick, (self.tick)(tick))).collect();
            columns(&mut svg, &axis, &ticks, (top, bottom));
            self.panel(&mut svg, index, &axis, (start + panel + beside, top));
            if let Some(base) = self.base {
                let x = axis.at(base);
                svg.line((x, top), (x, bottom), INK, "stroke-width=\"1.2\"");
            }
        }
        self.names(&mut svg, (left - 10.0, top));
        svg.finish(full, &self.title)
    }

    fn height(&self) -> f64 {
        self.groups.iter().map(|(_, rows)| GROUP + ROW * rows.len() as f64).sum()
    }

    fn names(&self, svg: &mut Svg, (right, mut y): (f64, f64)) {
        for (group, rows) in &self.groups {
            svg.text((16.0, y + 17.0), Anchor::Start, group, "font-weight=\"600\"");
            y += GROUP;
            for row in rows {
                svg.text((right, y + 12.0), Anchor::End, &row.name, "font-size=\"11\"");
                y += ROW;
            }
        }
    }

    fn panel(&self, svg: &mut Svg, index: usize, axis: &Axis, (right, mut y): (f64, f64)) {
        for (_, rows) in &self.groups {
            y += GROUP;
            for row in rows {
                if let Some(point) = row.points.get(index).and_then(Option::as_ref) {
                    let middle = y + ROW / 2.0;
                    let (low, high) = (axis.at(point.low), axis.at(point.high));
                    svg.line((low, middle), (high, middle), row.colour, "stroke-width=\"2\"");
                    svg.dot((axis.at(point.value), middle), 4.0, row.colour);
                    svg.text((right, y + 12.0), Anchor::End, &point.text, "font-size=\"11\"");
                }
                y += ROW;
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) dash: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) series: Vec<Series>,
}

#[derive(Debug)]
pub(super) struct Panels {
    pub(super) title: String,
    pub(super) caption: String,
    pub(super) measure: &'static str,
    pub(super) panels: Vec<Panel>,
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) dots: bool,
}

const COLUMNS: usize = 2;
const PANEL: (f64, f64) = (340.0, 170.0);
const MARGIN: f64 = 66.0;
const LEGEND: f64 = 15.0;

impl Panels {
    pub(super) fn draw(&self) -> String {
        let step = PANEL.0 + MARGIN + 14.0;
        let mut svg = Svg::new();
        svg.text((16.0, 24.0), Anchor::Start, &self.title, "font-size=\"15\" font-weight=\"600\"");
        svg.text((16.0, 42.0), Anchor::Start, &self.caption, &small());
        let mut y = 54.0;
        for line in self.panels.chunks(COLUMNS) {
            let legend = line.iter().map(|panel| legend(panel).0).fold(0.0, f64::max);
            for (index, panel) in line.iter().enumerate() {
                let left = MARGIN + step * index as f64;
                svg.text((left, y + 14.0), Anchor::Start, &panel.title, "font-weight=\"600\"");
                draw_legend(&mut svg, panel, (left, y + 20.0));
                self.panel(&mut svg, panel, (left, y + 26.0 + legend));
            }
            y += 26.0 + legend + PANEL.1 + 32.0;
        }
        let columns = self.panels.len().clamp(1, COLUMNS) as f64;
        svg.finish((step * columns + 16.0, y + 4.0), &self.title)
    }

    fn panel(&self, svg: &mut Svg, panel: &Panel, (left, top): (f64, f64)) {
        let (right, bottom) = (left + PANEL.0, top + PANEL.1);
        let points = || panel.series.iter().flat_map(|series| series.points.iter().copied());
        let x = Axis::linear(ends(self.ticks.iter().map(|(x, _)| *x)), (left + 6.0, right - 6.0));
        let y = Axis::fitting(points().map(|(_, y)| y), 8.0, (bottom, top));
        rows(svg, &y, self.measure, (left, right));
        columns(svg, &x, &self.ticks, (top, bottom));
        // Drawn last, the first are on top.
        for series in panel.series.iter().rev() {
            let shown = series.points.iter().filter(|(_, value)| !y.is_log || *value > 0.0);
            let points: Vec<_> = shown.map(|(at, value)| (x.at(*at), y.at(*value))).collect();
            let style = format!("stroke-width=\"1.8\" stroke-dasharray=\"{}\"", series.dash);
            svg.path(&points, series.colour, &style);
            if self.dots {
                points.iter().for_each(|point| svg.dot(*point, 2.5, series.colour));
            }
        }
        svg.line((left, bottom), (right, bottom), PALE, "");
    }
}

fn legend(panel: &Panel) -> (f64, Vec<(f64, f64)>) {
    let (mut x, mut y) = (0.0, 0.0);
    let mut places = Vec::new();
    for series in &panel.series {
        let needed = width(&series.name, 11.0) + 36.0;
        if x > 0.0 && x + needed > PANEL.0 {
            (x, y) = (0.0, y + LEGEND);
        }
        places.push((x, y));
        x += needed;
    }
    (y + LEGEND, places)
}

fn draw_legend(svg: &mut Svg, panel: &Panel, (left, top): (f64, f64)) {
    for (series, (x, y)) in panel.series.iter().zip(legend(panel).1) {
        let (x, y) = (left + x, top + y + 7.0);
        let style = format!("stroke-width=\"2.4\" stroke-dasharray=\"{}\"", series.dash);
        svg.line((x, y), (x + 20.0, y), series.colour, &style);
        svg.text((x + 25.0, y + 4.0), Anchor::Start, &series.name, "font-size=\"11\"");
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

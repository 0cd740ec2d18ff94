use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) const INK: RGBColor = RGBColor(36, 41, 47);
const GRID: RGBColor = RGBColor(216, 222, 228);
const PANEL: u32 = 500;
const NAMES: u32 = 150;
const ROW: u32 = 17;

pub(super) type Drawn<T> = Result<T, Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Write = fn(f64) -> String;

pub(super) struct Row {
    pub(super) name: String,
    pub(super) colour: RGBColor,
    pub(super) points: Vec<Option<Point>>,
}

pub(super) struct Point {
    pub(super) low: f64,
    pub(super) value: f64,
    pub(super) high: f64,
    pub(super) text: String,
}

pub(super) struct Points<'a> {
    pub(super) title: &'a str,
    pub(super) scale: String,
    pub(super) panels: Vec<&'a str>,
    pub(super) rows: Vec<Row>,
    pub(super) base: Option<f64>,
    pub(super) tick: Write,
}

impl Points<'_> {
    pub(super) fn draw(&self) -> Drawn<String> {
        let size = (PANEL * self.panels.len() as u32, self.rows.len() as u32 * ROW + 100);
        picture(self.title, "", size, |area| {
            let panels = area.split_evenly((1, self.panels.len()));
            panels.iter().enumerate().try_for_each(|(index, area)| self.panel(area, index))
        })
    }

    fn panel(&self, area: &Area<'_>, index: usize) -> Drawn<()> {
        let points = self.rows.iter().map(|row| row.points.get(index)?.as_ref());
        let points: Vec<_> = points.zip(&self.rows).collect();
        let values = points.iter().filter_map(|(point, _)| point.as_ref());
        let values = values.flat_map(|point| [point.low, point.value, point.high]);
        let scale = Scale::of(values.chain(self.base));
        let (low, high) = scale.ends;
        let end = self.rows.len() as f64 - 0.5;
        let mut chart = ChartBuilder::on(area)
            .caption(self.panels[index], font(13, FontStyle::Bold, HPos::Left))
            .margin_right(70)
            .x_label_area_size(40)
            .y_label_area_size(NAMES)
            .build_cartesian_2d(scale, end..-0.5)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(font(11, FontStyle::Normal, HPos::Left))
            .x_label_formatter(&|log| (self.tick)(10_f64.powf(*log)))
            .x_desc(self.scale.as_str())
            .draw()?;
        let area = chart.plotting_area();
        if let Some(base) = self.base {
            area.draw(&PathElement::new([(base.log10(), -0.5), (base.log10(), end)], INK))?;
        }
        for (y, (point, row)) in points.into_iter().enumerate() {
            let write = |text: &str, (x, offset), style, anchor| {
                let text = Text::new(text.to_owned(), (offset, 0), font(12, style, anchor));
                area.draw(&(EmptyElement::at((x, y as f64)) + text))
            };
            if row.points.is_empty() {
                write(&row.name, (low, 8 - NAMES as i32), FontStyle::Bold, HPos::Left)?;
                continue;
            }
            write(&row.name, (low, -10), FontStyle::Normal, HPos::Right)?;
            let Some(point) = point else { continue };
            let at = |value: f64| (value.log10().clamp(low, high), y as f64);
            let ends = [at(point.low), at(point.high)];
            area.draw(&PathElement::new(ends, row.colour.stroke_width(2)))?;
            area.draw(&Circle::new(at(point.value), 4, row.colour.filled()))?;
            write(&point.text, (high, 10), FontStyle::Normal, HPos::Left)?;
        }
        Ok(())
    }
}

pub(super) struct Series {
    pub(super) name: String,
    pub(super) colour: RGBColor,
    pub(super) width: u32,
    pub(super) points: Vec<(f64, f64)>,
}

pub(super) struct Lines<'a> {
    pub(super) title: String,
    pub(super) scales: String,
    pub(super) panels: Vec<(String, Vec<Series>)>,
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) tick: &'a dyn Fn(f64) -> String,
    pub(super) dots: bool,
}

impl Lines<'_> {
    pub(super) fn draw(&self) -> Drawn<String> {
        let columns = self.panels.len().min(2);
        let rows = self.panels.len().div_ceil(2);
        let size = (columns as u32 * PANEL, rows as u32 * 225 + 60);
        picture(&self.title, &self.scales, size, |area| {
            let areas = area.split_evenly((rows, columns));
            areas.iter().zip(&self.panels).try_for_each(|(area, panel)| self.panel(area, panel))
        })
    }

    fn panel(&self, area: &Area<'_>, (title, series): &(String, Vec<Series>)) -> Drawn<()> {
        let (area, legend) = area.split_horizontally(360);
        let scale =
            Scale::of(series.iter().flat_map(|series| &series.points).map(|(_, value)| *value));
        let at: Vec<f64> = self.ticks.iter().map(|(at, _)| *at).collect();
        let across = Scale { ends: (at[0] - 0.05, at[at.len() - 1] + 0.05), ticks: at };
        let label = |value: &f64| {
            let known = self.ticks.iter().find(|(at, _)| at == value);
            known.map_or(String::new(), |(_, label)| label.clone())
        };
        let mut chart = ChartBuilder::on(&area)
            .caption(title, font(13, FontStyle::Bold, HPos::Left))
            .margin(8)
            .x_label_area_size(22)
            .y_label_area_size(60)
            .build_cartesian_2d(across, scale)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(font(11, FontStyle::Normal, HPos::Left))
            .x_label_formatter(&label)
            .y_label_formatter(&|log| (self.tick)(10_f64.powf(*log)))
            .draw()?;
        for series in series.iter().rev() {
            let shown = series.points.iter().filter(|(_, value)| *value > 0.0);
            let points: Vec<_> = shown.map(|(at, value)| (*at, value.log10())).collect();
            let area = chart.plotting_area();
            if self.dots {
                points.iter().try_for_each(|point| {
                    area.draw(&Circle::new(*point, 3, series.colour.filled()))
                })?;
            }
            area.draw(&PathElement::new(points, series.colour.stroke_width(series.width)))?;
        }
        for (series, y) in series.iter().zip((38..).step_by(16)) {
            let style = series.colour.stroke_width(3);
            legend.draw(&PathElement::new([(0, y), (18, y)], style))?;
            let style = font(12, FontStyle::Normal, HPos::Left);
            legend.draw(&Text::new(series.name.as_str(), (24, y), style))?;
        }
        Ok(())
    }
}

fn picture(
    title: &str,
    subtitle: &str,
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Drawn<()>,
) -> Drawn<String> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    root.draw(&Text::new(title, (8, 18), font(16, FontStyle::Bold, HPos::Left)))?;
    if !subtitle.is_empty() {
        root.draw(&Text::new(subtitle, (8, 38), font(12, FontStyle::Normal, HPos::Left)))?;
    }
    draw(&root.margin(46, 4, 0, 0))?;
    root.present()?;
    drop(root);
    Ok(svg)
}

fn font(size: u32, style: FontStyle, at: HPos) -> TextStyle<'static> {
    let font = ("sans-serif", size).into_font().style(style);
    font.color(&INK).pos(Pos::new(at, VPos::Center))
}

/// A logarithmic scale, which draws zero at its lower end.
#[derive(Debug, Clone)]
struct Scale {
    ends: (f64, f64),
    ticks: Vec<f64>,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|value| *value > 0.0 && value.is_finite()).map(f64::log10);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = if low > high { (0.0, 0.0) } else { (low, high) };
        let space = (0.05 * (high - low)).max(0.1);
        let (low, high) = (low - space, high + space);
        let steps: &[f64] = match high - low {
            few if few < 1.5 => &[1.0, 2.0, 5.0],
            some if some < 2.5 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let decades = low.floor() as i32..=high.ceil() as i32;
        let ticks = decades
            .step_by(if high - low > 7.0 { 2 } else { 1 })
            .flat_map(|decade| steps.iter().map(move |step| step.log10() + f64::from(decade)))
            .filter(|tick| (low..=high).contains(tick));
        Self { ends: (low, high), ticks: ticks.collect() }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, log: &f64, (from, to): (i32, i32)) -> i32 {
        let (low, high) = self.ends;
        from + ((log - low) / (high - low) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.ends.0..self.ends.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_contains_the_values_and_has_ticks() {
        for values in [vec![], vec![0.0], vec![f64::INFINITY, f64::NAN], vec![5.0], vec![0.4, 1.3]]
        {
            let Scale { ends: (low, high), ticks } = Scale::of(values.iter().copied());
            let finite = values.iter().filter(|value| **value > 0.0 && value.is_finite());
            assert!(low < high && !ticks.is_empty(), "{values:?}: {low} to {high}, {ticks:?}");
            assert!(finite.map(|value| value.log10()).all(|log| low < log && log < high));
        }
    }
}

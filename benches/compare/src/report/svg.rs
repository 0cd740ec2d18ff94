//! SVG and axes.

use std::fmt::Write as _;

use super::names;

/// Marked pictures may be removed.
pub(super) const MADE: &str = "<!-- made by lockwright-bench -->";

pub(super) const INK: &str = "#24292f";
pub(super) const PALE: &str = "#57606a";
const GRID: &str = "#d8dee4";

/// Rather too wide. No font is measured.
const LETTER: f64 = 0.62;

#[derive(Debug)]
pub(super) struct Svg {
    body: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new() -> Self {
        Self { body: String::new() }
    }

    /// `more` are further attributes.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, more: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" {more}/>"
        );
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64, colour: &str) {
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>"
        );
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], colour: &str, more: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" {more}/>",
            points.join(" ")
        );
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str, more: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{}</text>",
            escaped(text)
        );
    }

    /// The page may be dark.
    pub(super) fn finish(self, (width, height): (f64, f64), title: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
             font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"{INK}\">\n\
             {MADE}\n<title>{}</title>\n\
             <rect width=\"{width:.0}\" height=\"{height:.0}\" rx=\"6\" fill=\"#ffffff\"/>\n{}</svg>\n",
            escaped(title),
            self.body
        )
    }
}

pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML allows no control characters.
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    pub(super) is_log: bool,
    from: f64,
    to: f64,
}

impl Axis {
    /// Logarithmic if they are `apart`, otherwise linear from 0.
    pub(super) fn fitting(values: impl Iterator<Item = f64>, apart: f64, ends: (f64, f64)) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite() && *value >= 0.0).collect();
        let high = values.iter().copied().fold(0.0, f64::max);
        let low = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let (from, to) = ends;
        if high <= 0.0 {
            return Self { low: 0.0, high: 1.0, is_log: false, from, to };
        }
        if high / low >= apart {
            return Self { low: low / 1.25, high: high * 1.25, is_log: true, from, to };
        }
        Self { low: 0.0, high: high * 1.06, is_log: false, from, to }
    }

    pub(super) fn linear((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        Self { low, high: if high > low { high } else { low + 1.0 }, is_log: false, from, to }
    }

    /// At the low end if too small for a logarithm.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let part = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part * (self.to - self.from)
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.is_log {
            let rough = (self.high - self.low) / 5.0;
            let size = 10_f64.powf(rough.log10().floor());
            let fits = |step: &f64| step * size >= rough;
            let step = [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0) * size;
            let first = (self.low / step).ceil() as i64;
            let last = (self.high / step).floor() as i64;
            return (first..=last).map(|tick| tick as f64 * step).collect();
        }
        let decades = (self.high / self.low).log10();
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let steps: &[f64] = if decades < 1.5 {
            &[1.0, 2.0, 5.0]
        } else if decades < 2.5 {
            &[1.0, 3.0]
        } else {
            &[1.0]
        };
        let each = if decades > 7.0 { 2 } else { 1 };
        (first..=last)
            .step_by(each)
            .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

pub(super) fn columns(
    svg: &mut Svg,
    axis: &Axis,
    ticks: &[(f64, String)],
    (top, bottom): (f64, f64),
) {
    let mut free_from = f64::NEG_INFINITY;
    for (value, label) in ticks {
        let x = axis.at(*value);
        svg.line((x, top), (x, bottom), GRID, "");
        let half = width(label, 10.0) / 2.0;
        if x - half >= free_from {
            svg.text((x, bottom + 13.0), Anchor::Middle, label, &small());
            free_from = x + half + 4.0;
        }
    }
}

pub(super) fn rows(svg: &mut Svg, axis: &Axis, measure: &str, (left, right): (f64, f64)) {
    for value in axis.ticks() {
        let y = axis.at(value);
        svg.line((left, y), (right, y), GRID, "");
        let label = names::figure(measure, value);
        svg.text((left - 5.0, y + 3.5), Anchor::End, &label, &small());
    }
}

pub(super) fn small() -> String {
    format!("font-size=\"10\" fill=\"{PALE}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_logarithmic_where_values_are_far_apart() {
        let near = Axis::fitting([0.4, 1.3].into_iter(), 20.0, (0.0, 100.0));
        assert!(!near.is_log && near.at(0.0) == 0.0);
        assert_eq!(near.ticks().first(), Some(&0.0));
        let far = Axis::fitting([0.0026, 0.0, 1.0].into_iter(), 20.0, (0.0, 100.0));
        assert!(far.is_log && far.at(0.0) == 0.0 && far.at(1.0) < 100.0);
        assert!(far.ticks().iter().any(|tick| (tick - 0.01).abs() < 1e-9), "{:?}", far.ticks());
    }

    #[test]
    fn an_axis_of_nothing_is_none_of_nan() {
        for values in [vec![], vec![0.0], vec![f64::INFINITY, f64::NAN], vec![5.0]] {
            let axis = Axis::fitting(values.into_iter(), 20.0, (10.0, 90.0));
            assert!([0.0, 1.0, 5.0, 1e9].iter().all(|value| axis.at(*value).is_finite()));
            assert!(!axis.ticks().is_empty());
        }
    }

    #[test]
    fn what_programs_print_is_harmless_in_a_picture() {
        assert_eq!(escaped("a<b> & \"c\"\u{1b}"), "a&lt;b&gt; &amp; &quot;c&quot; ");
    }
}

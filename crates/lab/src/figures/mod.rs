//! Drawings as SVG, PDF and PNG: line charts, grouped bars and tables of shares. Legends are placed next to the data,
//! never over it.
//!
//! Colours from Okabe and Ito, which people with any kind of colour vision can distinguish; dashes mark a further
//! difference, so that a print in grey reads as well.
mod bars;
mod cells;
mod export;
mod lines;

use plotters::{
    coord::Shift,
    prelude::{DrawingArea, IntoDrawingArea, RGBColor, Rectangle, SVGBackend, Text, WHITE},
    style::{FontDesc, FontFamily, FontStyle, IntoFont, ShapeStyle, TextStyle},
};
use serde::{Deserialize, Serialize};

pub use bars::{Bar, BarGroup, bars};
pub use cells::{CellRow, cells};
pub use lines::{Series, Style, lines};

/// A finished drawing.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Figure {
    /// The names of its files without `.svg`, `.pdf` and `.png`.
    pub name: String,
    /// Its message and conditions, in a sentence or two.
    pub caption: String,
    /// The drawing.
    pub svg: String,
}

impl Figure {
    /// Its files, SVG, PDF and PNG: names and contents.
    ///
    /// # Errors
    /// An error sentence, if the file is not a valid drawing.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        let (pdf, png) = export::export(&self.svg).map_err(|error| format!("the figure '{}': {error}", self.name))?;
        let file = |kind: &str, bytes| (format!("{}.{kind}", self.name), bytes);
        Ok(vec![file("svg", self.svg.clone().into_bytes()), file("pdf", pdf), file("png", png)])
    }
}

/// The frame of the data.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// The label of the horizontal axis, with its unit.
    pub x: String,
    /// The label of the vertical axis, with its unit.
    pub y: String,
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// Start of the vertical axis; `None` for zero.
    pub y_from: Option<f64>,
    /// Minimum end of the vertical axis.
    pub y_to: f64,
    /// Range of the horizontal axis; `None` fits the data.
    pub x_range: Option<(f64, f64)>,
    /// Spans of the horizontal axis that are shaded, each with a word for the legend.
    pub spans: Vec<(f64, f64, String)>,
    /// Marked moments of the horizontal axis, each with its event. They are numbered in the drawing.
    pub marks: Vec<(f64, String)>,
    /// Whether the horizontal axis is logarithmic.
    pub is_x_logarithmic: bool,
    /// The labelled values of a logarithmic axis; if empty, 1, 2 and 5 times the powers of ten.
    pub x_ticks: Vec<f64>,
}

impl Chart {
    /// A chart of the usual size.
    pub fn new(title: &str, x: &str, y: &str) -> Self {
        Chart {
            title: title.into(),
            x: x.into(),
            y: y.into(),
            size: (760, 380),
            y_from: None,
            y_to: 0.0,
            x_range: None,
            spans: Vec::new(),
            marks: Vec::new(),
            is_x_logarithmic: false,
            x_ticks: Vec::new(),
        }
    }
}

/// The number of colours; series beyond it start with the first again.
pub const COLOURS: usize = 7;

/// The colour of the n-th series.
pub fn colour(index: usize) -> RGBColor {
    const PALETTE: [(u8, u8, u8); COLOURS] =
        [(0, 114, 178), (230, 159, 0), (0, 158, 115), (213, 94, 0), (204, 121, 167), (86, 180, 233), (60, 60, 60)];
    let (red, green, blue) = PALETTE[index % PALETTE.len()];
    RGBColor(red, green, blue)
}

/// Colour of words and axes.
const INK: RGBColor = RGBColor(40, 40, 40);
/// Colour of lines in the background.
const GRID: RGBColor = RGBColor(225, 225, 225);
/// Colour of shaded spans.
const SHADE: RGBColor = RGBColor(238, 238, 238);

fn words(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}
fn bold(size: u32) -> TextStyle<'static> {
    FontDesc::new(FontFamily::SansSerif, f64::from(size), FontStyle::Bold).color(&INK)
}

/// A sample of a series for the legend.
enum Swatch {
    Line(RGBColor, Style),
    Box(RGBColor),
    /// The number of a marked moment.
    Mark(usize),
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Drawing into a string cannot fail.
const DRAWN: &str = "drawing into memory does not fail";

/// Draws title and legend, and passes the remaining area to `plot`.
fn framed(chart: &Chart, legend: &[(String, Swatch)], plot: impl FnOnce(&Area<'_>)) -> String {
    let mut svg = String::new();
    {
        let (width, height) = chart.size;
        let rows = rows(legend, width);
        // A long legend does not shrink the plot.
        let height = height + (rows.len() as u32).saturating_sub(2) * LEGEND_ROW as u32;
        let total = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        total.fill(&WHITE).expect(DRAWN);
        total.draw(&Text::new(chart.title.clone(), (12, 10), bold(16))).expect(DRAWN);
        for (row, entries) in rows.iter().enumerate() {
            let mut x = 14;
            for index in entries {
                let (label, swatch) = &legend[*index];
                let y = 36 + row as i32 * LEGEND_ROW;
                draw_swatch(&total, (x, y), swatch);
                total.draw(&Text::new(label.clone(), (x + 32, y), words(13))).expect(DRAWN);
                x += entry_width(label);
            }
        }
        let top = 36 + rows.len() as i32 * LEGEND_ROW + 4;
        let (_, below) = total.split_vertically(top);
        plot(&below);
        total.present().expect(DRAWN);
    }
    svg
}

const LEGEND_ROW: i32 = 19;

/// Width of a legend entry in pixels. Letters are about seven pixels wide at this size.
fn entry_width(label: &str) -> i32 {
    50 + label.chars().count() as i32 * 7
}
/// Breaks the legend into rows that fit the width.
fn rows(legend: &[(String, Swatch)], width: u32) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut used = i32::MAX;
    for (index, (label, _)) in legend.iter().enumerate() {
        let needs = entry_width(label);
        if used.saturating_add(needs) > width as i32 - 20 {
            rows.push(Vec::new());
            used = 0;
        }
        used += needs;
        if let Some(row) = rows.last_mut() {
            row.push(index);
        }
    }
    rows
}
fn draw_swatch(area: &Area<'_>, (x, y): (i32, i32), swatch: &Swatch) {
    match swatch {
        Swatch::Line(colour, style) => lines::sample(area, (x, y + 7), *colour, *style),
        Swatch::Box(colour) => {
            let filled = ShapeStyle::from(colour).filled();
            area.draw(&Rectangle::new([(x + 6, y + 1), (x + 24, y + 12)], filled)).expect(DRAWN);
        }
        Swatch::Mark(number) => area.draw(&Text::new(format!("({number})"), (x + 4, y), words(13))).expect(DRAWN),
    }
}

/// A short number.
fn short(value: f64) -> String {
    short_within(value, 1.0)
}
/// A short number on an axis with this span: with enough decimals to distinguish its labels, two or more.
fn short_within(value: f64, span: f64) -> String {
    let decimals = if span > 0.0 { (1.0 - span.log10().floor()).clamp(2.0, 12.0) as usize } else { 2 };
    let size = value.abs();
    if size >= 1e6 {
        format!("{}M", trimmed(value / 1e6, 2))
    } else if size >= 1e4 {
        format!("{}k", trimmed(value / 1e3, 2))
    } else {
        trimmed(value, decimals)
    }
}
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}
/// Room above the highest value.
fn headroom(highest: f64) -> f64 {
    if highest > 0.0 { highest * 1.08 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(0.0, "0"), (0.25, "0.25"), (1500.0, "1500"), (25_000.0, "25k"), (3e6, "3M")] {
            assert_eq!(short(value), text);
        }
        for (value, span, text) in
            [(0.002, 0.01, "0.002"), (0.0004, 0.003, "0.0004"), (0.1234, 0.5, "0.12"), (3.0, 0.0, "3")]
        {
            assert_eq!(short_within(value, span), text);
        }
    }

    /// The texts of a drawing.
    fn texts(svg: &str) -> Vec<&str> {
        svg.split("</text>").filter_map(|part| part.rsplit_once(">\n")).map(|(_, text)| text.trim()).collect()
    }

    #[test]
    fn labels_of_an_axis_differ() {
        let points = |from: f64, most: f64| vec![(from, 0.0), (from * 64.0, most)];
        let narrow = lines(&Chart::new("", "", ""), &[Series::new("", points(1.0, 0.006))]);
        let chart = Chart { is_x_logarithmic: true, ..Chart::new("", "", "") };
        let logarithmic = lines(&chart, &[Series::new("", points(50.0, 1.0))]);
        for svg in [narrow, logarithmic] {
            let mut labels: Vec<_> = texts(&svg).into_iter().filter(|text| !text.is_empty() && *text != "0").collect();
            let count = labels.len();
            labels.sort_unstable();
            labels.dedup();
            assert!(count > 8 && labels.len() == count, "{labels:?} of {count}");
        }
    }

    #[test]
    fn words_below_bars_are_broken_where_they_do_not_fit_side_by_side() {
        let draw = |labels: &[&str]| {
            let group = |label: &&str| BarGroup { label: (*label).into(), bars: vec![Bar::new(1.0)] };
            let groups: Vec<_> = labels.iter().map(group).collect();
            bars(&Chart::new("", "", ""), &["series"], &groups)
        };
        let svg = draw(&["nearest-source", "nearest-source-by-place", "b", "c", "d", "e", "f", "g", "h"]);
        let found: Vec<_> =
            texts(&svg).into_iter().filter(|text| text.contains("est") || text.contains("place")).collect();
        assert_eq!(found, ["nearest-", "nearest-", "by-place"]);
        assert!(texts(&draw(&["nearest-source", "b"])).contains(&"nearest-source"));
    }

    #[test]
    fn a_drawing_holds_its_words_and_is_the_same_every_time() {
        let draw = || {
            let chart = Chart::new("Windows", "time (s)", "window (packets)");
            let points = vec![(0.0, 1.0), (1.0, 4.0), (2.0, 2.0)];
            let series = [Series::new("publisher 1", points.clone()), Series::new("ideal", points).dashed()];
            lines(&chart, &series)
        };
        let svg = draw();
        for word in ["Windows", "time (s)", "window (packets)", "publisher 1", "ideal"] {
            assert!(svg.contains(word), "{word}");
        }
        assert_eq!(svg, draw());
    }

    #[test]
    fn what_is_not_known_interrupts_a_line_and_moments_are_numbered() {
        let draw = |middle: f64| {
            let chart = Chart { marks: vec![(1.5, "dsl: down".into())], ..Chart::new("", "", "") };
            lines(&chart, &[Series::new("a", vec![(0.0, 1.0), (1.0, 2.0), (1.5, middle), (2.0, 2.0), (3.0, 1.0)])])
        };
        let pieces = |svg: &str| svg.matches("<polyline fill=\"none\" opacity=\"1\" stroke=\"#0072B2\"").count();
        let (through, interrupted) = (draw(1.5), draw(f64::NAN));
        // One of them is the sample in the legend.
        assert_eq!(pieces(&interrupted), pieces(&through) + 1, "{interrupted}");
        let words = texts(&interrupted);
        assert!(words.contains(&"dsl: down") && words.iter().filter(|word| **word == "(1)").count() == 2, "{words:?}");
    }

    #[test]
    fn a_long_legend_goes_on_in_the_next_row() {
        let entries: Vec<_> = (0..8).map(|n| (format!("a series number {n}"), Swatch::Box(colour(n)))).collect();
        assert!(rows(&entries, 760).len() >= 2);
    }
}

//! Values over an axis.
use plotters::{
    chart::ChartBuilder,
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, Ranged, ValueFormatter},
    },
    prelude::{
        BindKeyPoints, Circle, Cross, DashedLineSeries, DrawingArea, IntoLogRange, LineSeries, PathElement, RGBColor,
        Rectangle, SVGBackend, Text,
    },
    style::{Color, ShapeStyle},
};
use std::cell::RefCell;

use super::{Chart, DRAWN, GRID, INK, SHADE, Swatch, colour, framed, headroom, short, short_within, words};

/// One line or cloud of points.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// The text in the legend.
    pub label: String,
    /// The points, by x. A point whose y is not a number interrupts the line: the value is unknown there.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: Style,
    /// Colour number, see [`colour`]; `None` takes its position in the list.
    pub colour: Option<usize>,
    /// Vertical lines from the least to the most: x, least, most.
    pub ranges: Vec<(f64, f64, f64)>,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Style {
    /// A line.
    #[default]
    Line,
    /// A line of dashes.
    Dashed,
    /// A line with a dot at each point.
    Marked,
    /// Points only.
    Dots,
    /// Crosses only: another's values.
    Crosses,
}

impl Series {
    /// A line.
    pub fn new(label: &str, points: Vec<(f64, f64)>) -> Self {
        Series { label: label.into(), points, style: Style::Line, colour: None, ranges: Vec::new() }
    }
    /// The series with dashes.
    #[must_use]
    pub fn dashed(self) -> Self {
        self.styled(Style::Dashed)
    }
    /// The same in another style.
    #[must_use]
    pub fn styled(mut self, style: Style) -> Self {
        self.style = style;
        self
    }
    /// The series with a vertical line at each x from the least to the most: x, least, most.
    #[must_use]
    pub fn with_ranges(mut self, ranges: Vec<(f64, f64, f64)>) -> Self {
        self.ranges = ranges;
        self
    }
    /// The same in the n-th colour.
    #[must_use]
    pub fn coloured(mut self, index: usize) -> Self {
        self.colour = Some(index);
        self
    }
}

/// Draws series over a common axis as SVG.
pub fn lines(chart: &Chart, series: &[Series]) -> String {
    let colour_of = |index: usize, of: &Series| colour(of.colour.unwrap_or(index));
    let mut legend: Vec<_> = series
        .iter()
        .enumerate()
        .map(|(index, of)| (of.label.clone(), Swatch::Line(colour_of(index, of), of.style)))
        .collect();
    for (.., word) in &chart.spans {
        if !legend.iter().any(|(label, _)| label == word) {
            legend.push((word.clone(), Swatch::Box(SHADE)));
        }
    }
    for (number, (_, word)) in (1..).zip(&chart.marks) {
        legend.push((word.clone(), Swatch::Mark(number)));
    }
    let all = || series.iter().flat_map(|of| &of.points).filter(|(_, y)| y.is_finite());
    let fit = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (mut from, mut to) = chart.x_range.unwrap_or_else(|| fit(&mut all().map(|(x, _)| *x)));
    if from >= to {
        (from, to) = if from.is_finite() { (from, from + 1.0) } else { (0.0, 1.0) };
    }
    let ranges = series.iter().flat_map(|of| &of.ranges).map(|(.., most)| *most);
    let (_, highest) = fit(&mut all().map(|(_, y)| *y).chain(ranges));
    let bottom = chart.y_from.unwrap_or(0.0);
    let top = headroom(highest.max(chart.y_to)).max(bottom + f64::MIN_POSITIVE);
    framed(chart, &legend, |area| {
        if chart.is_x_logarithmic && !chart.x_ticks.is_empty() {
            let x = (from..to).log_scale().with_key_points(chart.x_ticks.clone());
            plot(area, chart, series, x, bottom..top, colour_of);
        } else if chart.is_x_logarithmic {
            plot(area, chart, series, (from..to).log_scale(), bottom..top, colour_of);
        } else {
            plot(area, chart, series, from..to, bottom..top, colour_of);
        }
    })
}

fn plot<X>(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    chart: &Chart,
    series: &[Series],
    x: X,
    y: std::ops::Range<f64>,
    colour_of: impl Fn(usize, &Series) -> RGBColor,
) where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let (bottom, top) = (y.start, y.end);
    // A logarithmic axis has the ends of its decades twice.
    let shown = RefCell::new(String::new());
    let x_label = |value: f64| {
        let is_labelled = !chart.is_x_logarithmic || !chart.x_ticks.is_empty() || is_round(value);
        let label = if is_labelled { short(value) } else { String::new() };
        let before = shown.replace(label.clone());
        if before == label { String::new() } else { label }
    };
    let mut context = ChartBuilder::on(area)
        .margin(10)
        .margin_right(22)
        .x_label_area_size(44)
        .y_label_area_size(62)
        .build_cartesian_2d(x, y)
        .expect(DRAWN);
    let spans = chart
        .spans
        .iter()
        .map(|(from, to, _)| Rectangle::new([(*from, bottom), (*to, top)], ShapeStyle::from(&SHADE).filled()));
    context.draw_series(spans).expect(DRAWN);
    context
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(RGBColor(255, 255, 255).mix(0.0))
        .axis_style(INK)
        .x_desc(chart.x.clone())
        .y_desc(chart.y.clone())
        .label_style(words(13))
        .axis_desc_style(words(14))
        .x_label_formatter(&|value| x_label(*value))
        .y_label_formatter(&|value| short_within(*value, top - bottom))
        .draw()
        .expect(DRAWN);
    for (index, of) in series.iter().enumerate() {
        let colour = colour_of(index, of);
        let thin = ShapeStyle::from(&colour).stroke_width(2);
        let is_seen = |x: f64| chart.x_range.is_none_or(|(from, to)| (from..=to).contains(&x));
        let points = || of.points.iter().copied().filter(|(x, y)| is_seen(*x) && y.is_finite());
        let runs = runs(&of.points, is_seen);
        let ranges = of.ranges.iter().map(|(x, least, most)| {
            PathElement::new([(*x, *least), (*x, *most)], ShapeStyle::from(&colour.mix(0.6)).stroke_width(3))
        });
        context.draw_series(ranges).expect(DRAWN);
        let dots = || points().map(|at| Circle::new(at, 4, thin.filled()));
        for run in runs {
            match of.style {
                Style::Line | Style::Marked => drop(context.draw_series(LineSeries::new(run, thin)).expect(DRAWN)),
                Style::Dashed => drop(context.draw_series(DashedLineSeries::new(run, 7, 5, thin)).expect(DRAWN)),
                Style::Dots | Style::Crosses => {}
            }
        }
        match of.style {
            Style::Marked | Style::Dots => drop(context.draw_series(dots()).expect(DRAWN)),
            Style::Crosses => drop(context.draw_series(points().map(|at| Cross::new(at, 5, thin))).expect(DRAWN)),
            Style::Line | Style::Dashed => {}
        }
    }
    for (number, (x, _)) in (1..).zip(&chart.marks) {
        let ink = ShapeStyle::from(&INK).stroke_width(1);
        context.draw_series(DashedLineSeries::new([(*x, bottom), (*x, top)], 3, 3, ink)).expect(DRAWN);
        let place = context.backend_coord(&(*x, top));
        let (left, above) = area.get_base_pixel();
        let text = Text::new(format!("({number})"), (place.0 - left + 3, place.1 - above), words(11));
        area.draw(&text).expect(DRAWN);
    }
}

/// The points between interruptions.
fn runs(points: &[(f64, f64)], is_seen: impl Fn(f64) -> bool) -> Vec<Vec<(f64, f64)>> {
    let pieces = points.split(|(_, y)| !y.is_finite());
    let seen = pieces.map(|piece| piece.iter().copied().filter(|(x, _)| is_seen(*x)).collect::<Vec<_>>());
    seen.filter(|piece| !piece.is_empty()).collect()
}

/// Whether a value on a logarithmic axis deserves a label: 1, 2 or 5 times a power of ten.
fn is_round(value: f64) -> bool {
    let lead = value / 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].iter().any(|round| (lead - round).abs() < 1e-6)
}

/// A piece of a series for the legend.
pub(super) fn sample(area: &DrawingArea<SVGBackend<'_>, Shift>, (x, y): (i32, i32), colour: RGBColor, style: Style) {
    let thin = ShapeStyle::from(&colour).stroke_width(2);
    let piece = |from: i32, to: i32| PathElement::new([(x + from, y), (x + to, y)], thin);
    match style {
        Style::Line => area.draw(&piece(0, 26)).expect(DRAWN),
        Style::Dashed => {
            [(0, 7), (11, 18), (22, 26)].into_iter().for_each(|(a, b)| area.draw(&piece(a, b)).expect(DRAWN))
        }
        Style::Marked => {
            area.draw(&piece(0, 26)).expect(DRAWN);
            area.draw(&Circle::new((x + 13, y), 4, thin.filled())).expect(DRAWN);
        }
        Style::Dots => area.draw(&Circle::new((x + 13, y), 4, thin.filled())).expect(DRAWN),
        Style::Crosses => area.draw(&Cross::new((x + 13, y), 5, thin)).expect(DRAWN),
    }
}

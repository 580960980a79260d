//! Groups of bars, each with its spread and the paper's value.
use plotters::{
    chart::ChartBuilder,
    prelude::{IntoSegmentedCoord, PathElement, RGBColor, Rectangle, SegmentValue, Text},
    style::{
        Color, ShapeStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use crate::stats::{confidence, mean};

use super::{Chart, DRAWN, GRID, INK, Style, Swatch, colour, framed, headroom, short, short_within, words};

/// The bars side by side above one label.
#[derive(Clone, PartialEq, Debug)]
pub struct BarGroup {
    /// The word below.
    pub label: String,
    /// The bars, one per series; `None` leaves a gap.
    pub bars: Vec<Option<Bar>>,
}

/// One bar.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Half the height of the whisker; zero omits it.
    pub spread: f64,
    /// The paper's value, drawn as a dashed line over the bar.
    pub paper: Option<f64>,
}

impl Bar {
    /// A bar without whisker.
    pub fn new(value: f64) -> Option<Self> {
        Some(Bar { value, spread: 0.0, paper: None })
    }
    /// The mean of values with its 95 % confidence interval.
    pub fn of(values: &[f64]) -> Option<Self> {
        Bar::with_spread(mean(values), confidence(values))
    }
    /// A bar with a whisker.
    pub fn with_spread(value: f64, spread: f64) -> Option<Self> {
        Some(Bar { value, spread, paper: None })
    }
}

/// Pixels of the vertical axis.
const LEFT: u32 = 62;
/// Pixels of a row of words below.
const LABEL_ROW: u32 = 15;

/// A label below, in rows of up to `letters_max` letters where its hyphens and spaces allow.
fn broken(label: &str, letters_max: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for part in label.split_inclusive(['-', ' ']) {
        let row = rows.last_mut().expect("there is one from the start");
        match row.chars().count() + part.trim_end().chars().count() > letters_max && !row.is_empty() {
            true => rows.push(part.into()),
            false => row.push_str(part),
        }
    }
    rows
}

/// Draws groups of bars as SVG; `series` names the bars of each group.
#[expect(clippy::too_many_lines, reason = "one drawing from top to bottom")]
pub fn bars(chart: &Chart, series: &[&str], groups: &[BarGroup]) -> String {
    let mut legend: Vec<_> =
        series.iter().enumerate().map(|(index, label)| ((*label).to_string(), Swatch::Box(colour(index)))).collect();
    let all = || groups.iter().flat_map(|group| group.bars.iter().flatten());
    if all().any(|bar| bar.paper.is_some()) {
        legend.push(("paper".into(), Swatch::Line(INK, Style::Dashed)));
    }
    let highest = all().map(|bar| (bar.value + bar.spread).max(bar.paper.unwrap_or(0.0))).fold(chart.y_to, f64::max);
    let labels: Vec<usize> = (0..groups.len()).collect();
    let (width, _) = chart.size;
    let top = headroom(highest) * 1.04;
    // Letters are about seven pixels wide at this size; the vertical axis and margins flank the plot.
    let letters_max = (width.saturating_sub(LEFT + 20) as usize / groups.len().max(1) / 7).max(2) - 1;
    let words_below: Vec<Vec<String>> = groups.iter().map(|group| broken(&group.label, letters_max)).collect();
    let rows = words_below.iter().map(Vec::len).max().unwrap_or(1);
    framed(chart, &legend, |area| {
        let mut context = ChartBuilder::on(area)
            .margin(10)
            .x_label_area_size(44 + LABEL_ROW * (rows as u32 - 1))
            .y_label_area_size(LEFT)
            .build_cartesian_2d(labels.as_slice().into_segmented(), 0.0..top)
            .expect(DRAWN);
        context
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(RGBColor(255, 255, 255).mix(0.0))
            .axis_style(INK)
            .x_desc(chart.x.clone())
            .y_desc(chart.y.clone())
            .label_style(words(13))
            .axis_desc_style(words(14))
            .x_labels(groups.len())
            .x_label_formatter(&|value| match value {
                SegmentValue::CenterOf(index) => words_below[**index][0].trim_end().into(),
                SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
            })
            .y_label_formatter(&|value| short_within(*value, top))
            .draw()
            .expect(DRAWN);
        // Bars are placed by pixel, because segments know only their middle.
        let plot = context.plotting_area().strip_coord_spec();
        let (plot_width, plot_height) = plot.dim_in_pixel();
        let slot = f64::from(plot_width) / groups.len().max(1) as f64;
        let bar_width = (slot * 0.8 / series.len().max(1) as f64).min(64.0);
        let scale = f64::from(plot_height) / top;
        let y = |value: f64| (f64::from(plot_height) - value * scale).round() as i32;
        let (from_left, from_top) = area.get_base_pixel();
        let (plot_left, plot_top) = plot.get_base_pixel();
        for (place, group) in groups.iter().enumerate() {
            // The first row below is the axis's own.
            for (row, text) in (1..).zip(words_below[place].iter().skip(1)) {
                let middle = plot_left - from_left + (slot * (place as f64 + 0.5)).round() as i32;
                let below = plot_top - from_top + plot_height as i32 + 10 + LABEL_ROW as i32 * row;
                let style = words(13).pos(Pos::new(HPos::Center, VPos::Top));
                area.draw(&Text::new(text.trim_end().to_string(), (middle, below), style)).expect(DRAWN);
            }
            let left = slot * (place as f64 + 0.5) - bar_width * series.len() as f64 / 2.0;
            for (index, bar) in group.bars.iter().enumerate() {
                let Some(bar) = bar else { continue };
                let (from, to) = (left + bar_width * index as f64 + 1.0, left + bar_width * (index + 1) as f64 - 1.0);
                let (from, to) = (from.round() as i32, to.round() as i32);
                let middle = i32::midpoint(from, to);
                let filled = ShapeStyle::from(&colour(index)).filled();
                plot.draw(&Rectangle::new([(from, y(bar.value)), (to, y(0.0))], filled)).expect(DRAWN);
                let ink = ShapeStyle::from(&INK).stroke_width(1);
                if bar.spread > 0.0 {
                    let (low, high) = (y((bar.value - bar.spread).max(0.0)), y(bar.value + bar.spread));
                    plot.draw(&PathElement::new([(middle, low), (middle, high)], ink)).expect(DRAWN);
                    for end in [low, high] {
                        plot.draw(&PathElement::new([(middle - 4, end), (middle + 4, end)], ink)).expect(DRAWN);
                    }
                }
                if let Some(paper) = bar.paper {
                    let thick = ShapeStyle::from(&INK).stroke_width(2);
                    let mut x = from - 3;
                    while x < to + 3 {
                        plot.draw(&PathElement::new([(x, y(paper)), ((x + 6).min(to + 3), y(paper))], thick))
                            .expect(DRAWN);
                        x += 10;
                    }
                }
                if bar_width >= 24.0 && width >= 500 {
                    let above = (bar.value + bar.spread)
                        .max(bar.paper.filter(|p| (p - bar.value).abs() * scale < 16.0).unwrap_or(0.0));
                    let style = words(11).pos(Pos::new(HPos::Center, VPos::Bottom));
                    plot.draw(&Text::new(short(bar.value), (middle, y(above) - 3), style)).expect(DRAWN);
                }
            }
        }
    })
}

//! A table whose cells are coloured by a share: half is white, more is orange, less is blue.
use plotters::{
    prelude::{RGBColor, Rectangle, Text},
    style::{
        ShapeStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{Chart, DRAWN, framed, words};

/// A row of a table of cells.
#[derive(Clone, PartialEq, Debug)]
pub struct CellRow {
    /// The words before it.
    pub label: String,
    /// Shares from 0 to 1, one per column; `None` leaves the cell empty.
    pub shares: Vec<Option<f64>>,
}

/// Pixels of the words before a row, and of a row.
const LABEL: i32 = 230;
const ROW: i32 = 20;
/// Pixels above and below the rows.
const MARGIN: i32 = 24;

/// Draws a table of shares as SVG with its natural height; `columns` are the headings.
pub fn cells(chart: &Chart, columns: &[String], rows: &[CellRow]) -> String {
    let (width, _) = chart.size;
    let height = (rows.len() as i32 * ROW + 2 * MARGIN + 60) as u32;
    let chart = Chart { size: (width, height), ..chart.clone() };
    framed(&chart, &[], |area| {
        let slot = (width as i32 - LABEL - 14) / columns.len().max(1) as i32;
        let centre = |column: usize| LABEL + slot * column as i32 + slot / 2;
        let middle = |row: usize| MARGIN + ROW * row as i32 + ROW / 2;
        let centred = || words(12).pos(Pos::new(HPos::Center, VPos::Center));
        for (column, text) in columns.iter().enumerate() {
            area.draw(&Text::new(text.clone(), (centre(column), MARGIN / 2), centred())).expect(DRAWN);
        }
        for (place, row) in rows.iter().enumerate() {
            let style = words(12).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw(&Text::new(row.label.clone(), (LABEL - 10, middle(place)), style)).expect(DRAWN);
            for (column, share) in row.shares.iter().enumerate() {
                let Some(share) = share else { continue };
                let (x, y) = (centre(column), middle(place));
                let corners = [(x - slot / 2 + 1, y - ROW / 2 + 1), (x + slot / 2 - 1, y + ROW / 2 - 1)];
                area.draw(&Rectangle::new(corners, ShapeStyle::from(&shade(*share)).filled())).expect(DRAWN);
                area.draw(&Text::new(format!("{share:.2}"), (x, y), centred())).expect(DRAWN);
            }
        }
    })
}

/// The colour of a share.
fn shade(share: f64) -> RGBColor {
    let (full, part) = match share < 0.5 {
        true => ((86, 180, 233), 1.0 - share * 2.0),
        false => ((230, 159, 0), share * 2.0 - 1.0),
    };
    let mix = |full: u8| (255.0 - (255.0 - f64::from(full)) * part.clamp(0.0, 1.0)).round() as u8;
    RGBColor(mix(full.0), mix(full.1), mix(full.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_white_and_the_ends_have_their_colours() {
        let of = |share| (shade(share).0, shade(share).1, shade(share).2);
        assert_eq!((of(0.5), of(0.0), of(1.0)), ((255, 255, 255), (86, 180, 233), (230, 159, 0)));
    }

    #[test]
    fn a_table_holds_its_words_and_leaves_out_what_there_is_not() {
        let row = CellRow { label: "20 Mbit/s".into(), shares: vec![Some(0.25), None] };
        let svg = cells(&Chart::new("Shares", "", ""), &["½".into(), "1".into()], &[row]);
        assert!(["Shares", "20 Mbit/s", "0.25", "½"].iter().all(|word| svg.contains(word)));
        assert_eq!(svg.matches("0.25").count(), 1);
    }
}

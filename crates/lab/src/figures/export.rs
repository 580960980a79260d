//! The same drawings for papers and slides: PDF, with its letters as outlines, and PNG.
//!
//! Outlines need no font in the file, as printers and conferences require, and no crates that subset fonts, which took
//! a tenth of the program's build time.
use std::sync::{Arc, LazyLock};

use resvg::{tiny_skia, usvg};

/// Pixels of a PNG for one of the drawing: 288 to an inch where a browser shows 96.
const PNG_SCALE: f32 = 3.0;
/// The font is part of the program, so that a drawing is the same on every machine.
const LETTERS: &str = "DejaVu Sans";

static OPTIONS: LazyLock<usvg::Options<'static>> = LazyLock::new(|| {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_source(usvg::fontdb::Source::Binary(Arc::new(dejavu::sans::regular())));
    fonts.set_sans_serif_family(LETTERS);
    usvg::Options { fontdb: Arc::new(fonts), font_family: LETTERS.into(), ..usvg::Options::default() }
});

/// A drawing as PDF and as PNG.
///
/// # Errors
/// A sentence, if the drawing is no SVG or too large.
pub(super) fn export(svg: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    let tree = usvg::Tree::from_str(svg, &OPTIONS).map_err(|error| error.to_string())?;
    let outlined = tree.to_string(&usvg::WriteOptions::default());
    let outlined = usvg::Tree::from_str(&outlined, &OPTIONS).map_err(|error| error.to_string())?;
    let pdf = svg2pdf::to_pdf(&outlined, svg2pdf::ConversionOptions::default(), svg2pdf::PageOptions::default())
        .map_err(|error| format!("it cannot be written as PDF: {error}"))?;
    let size = tree.size().to_int_size().scale_by(PNG_SCALE);
    let map = size.and_then(|size| tiny_skia::Pixmap::new(size.width(), size.height()));
    let mut map = map.ok_or("it is too large for a PNG")?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(PNG_SCALE, PNG_SCALE), &mut map.as_mut());
    let png = map.encode_png().map_err(|error| format!("it cannot be written as PNG: {error}"))?;
    Ok((pdf, png))
}

#[cfg(test)]
mod tests {
    use super::super::{Chart, Series, lines};
    use super::*;

    #[test]
    fn a_drawing_has_letters_in_its_pdf_and_colours_in_its_png_and_is_the_same_each_time() {
        let series = [Series::new("one", vec![(0.0, 1.0), (1.0, 2.0)])];
        let of = |title: &str| lines(&Chart::new(title, "time, s", "rate, Mbit/s"), &series);
        let svg = of("Rates");
        let (pdf, png) = export(&svg).unwrap();
        assert!(pdf.starts_with(b"%PDF-"));
        let (longer, _) = export(&of("Rates of one path and of the other one")).unwrap();
        assert!(longer.len() > pdf.len() + 500, "letters are outlines: {} and {} bytes", longer.len(), pdf.len());
        assert!(png.starts_with(b"\x89PNG"));
        let picture = tiny_skia::Pixmap::decode_png(&png).unwrap();
        let (width, height) = (svg_number(&svg, "width"), svg_number(&svg, "height"));
        assert_eq!((picture.width(), picture.height()), (3 * width, 3 * height));
        let dark = picture.pixels().iter().filter(|pixel| pixel.red() < 100 && pixel.alpha() == 255).count();
        assert!(dark > 3_000, "{dark} pixels of letters and lines");
        assert_eq!(export(&svg).unwrap(), (pdf, png));
    }
    fn svg_number(svg: &str, name: &str) -> u32 {
        let from = svg.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
        svg[from..].split('"').next().unwrap().parse().unwrap()
    }

    #[test]
    fn what_is_no_drawing_is_refused() {
        assert!(export("<svg").is_err());
    }
}

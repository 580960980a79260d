//! QR codes, for passing text to a phone.
use qrcodegen::{QrCode, QrCodeEcc};

/// The lines of a QR code of `text` for a dark terminal: blocks for its light modules, two modules of a column per
/// character.
///
/// # Errors
/// If the text does not fit into a QR code, which holds 2,953 bytes.
pub fn draw(text: &str) -> Result<Vec<String>, String> {
    let code = QrCode::encode_text(text, QrCodeEcc::Low).map_err(|error| format!("no QR code holds it: {error}"))?;
    let (start, end) = (-QUIET, code.size() + QUIET);
    let column = |x: i32, y: i32| match (code.get_module(x, y), y + 1 >= end || code.get_module(x, y + 1)) {
        (false, false) => '█',
        (false, true) => '▀',
        (true, false) => '▄',
        (true, true) => ' ',
    };
    Ok((start..end).step_by(2).map(|y| (start..end).map(|x| column(x, y)).collect()).collect())
}

/// Light modules around the code (ISO/IEC 18004 §6.3.8).
const QUIET: i32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_corners_and_a_quiet_zone() {
        let lines = draw("trib://").expect("short");
        // Version 1 has 21 modules per side.
        assert!(lines.len() == 15 && lines.iter().all(|line| line.chars().count() == 29), "{lines:#?}");
        let corner: String = lines[2].chars().skip(4).take(8).collect();
        assert_eq!((&*lines[0], &*corner), (&*"█".repeat(29), " ▄▄▄▄▄ █"));
        assert!(draw(&"x".repeat(3_000)).is_err());
    }
}

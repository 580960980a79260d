//! A page of headings, tables and figures in one HTML file that needs no other.
use std::fmt::Write;

/// A page under construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Page {
    title: String,
    body: String,
}

impl Page {
    /// An empty page.
    pub(super) fn new(title: &str) -> Self {
        Page { title: title.into(), body: String::new() }
    }
    /// Adds a heading.
    pub(super) fn heading(mut self, text: &str) -> Self {
        let _ = writeln!(self.body, "<h2>{}</h2>", escaped(text));
        self
    }
    /// Adds a paragraph.
    pub(super) fn paragraph(mut self, text: &str) -> Self {
        let _ = writeln!(self.body, "<p>{}</p>", escaped(text));
        self
    }
    /// Adds a block of text as it is, such as a command.
    pub(super) fn verbatim(mut self, text: &str) -> Self {
        let _ = writeln!(self.body, "<pre>{}</pre>", escaped(text));
        self
    }
    /// Adds a table. Cells that are numbers are set to the right.
    pub(super) fn table(mut self, header: &[&str], rows: &[Vec<String>]) -> Self {
        self.body += "<table>\n<tr>";
        for cell in header {
            let _ = write!(self.body, "<th>{}</th>", escaped(cell));
        }
        self.body += "</tr>\n";
        for row in rows {
            self.body += "<tr>";
            for cell in row {
                let class = if cell.parse::<f64>().is_ok() { " class=\"number\"" } else { "" };
                let _ = write!(self.body, "<td{class}>{}</td>", escaped(cell));
            }
            self.body += "</tr>\n";
        }
        self.body += "</table>\n";
        self
    }
    /// Adds a figure, which is put into the page as it is: `svg` must be ours.
    pub(super) fn figure(mut self, caption: &str, svg: &str) -> Self {
        let _ = writeln!(self.body, "<figure>\n{svg}\n<figcaption>{}</figcaption>\n</figure>", escaped(caption));
        self
    }
    /// The page.
    pub(super) fn html(&self) -> String {
        let (title, body) = (escaped(&self.title), &self.body);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
        )
    }
}

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:860px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0}th,td{border-bottom:1px solid #ddd;padding:.25em .7em;text-align:left}\
td.number{text-align:right;font-variant-numeric:tabular-nums}pre{background:#f4f4f4;padding:.7em;overflow:auto}\
figure{margin:1.5em 0}figure svg{max-width:100%;height:auto}figcaption{color:#555;font-size:90%}";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_escaped_and_numbers_stand_to_the_right() {
        let page = Page::new("A & B").table(&["<what>", "n"], &[vec!["x<y".into(), "1.5".into()]]);
        let html = page.html();
        assert!(html.contains("<h1>A &amp; B</h1>") && html.contains("<th>&lt;what&gt;</th>"));
        assert!(html.contains("<td>x&lt;y</td><td class=\"number\">1.5</td>"));
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let html = Page::new("x").figure("a figure", "<svg></svg>").html();
        assert!(!html.contains("http") && !html.contains("src="));
    }
}

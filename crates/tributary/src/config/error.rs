//! Errors that point at a line of a config file.
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource, Report};
use std::{fmt, ops::Range, sync::Arc};

/// All mistakes in a config file, in the order of its lines.
#[derive(Debug)]
pub struct ConfigErrors {
    file: String,
    text: Arc<str>,
    problems: Vec<Problem>,
}

/// A mistake: place, description, and remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Bytes of the file that it is about.
    pub span: Range<usize>,
    /// The mistake, with the key or the value.
    pub message: String,
    /// A remedy; empty if there is nothing to add.
    pub hint: String,
}

/// How an error is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drawing {
    /// Plain characters, no escape codes.
    Plain,
    /// With colours, for a terminal.
    Coloured,
}

impl ConfigErrors {
    /// The mistakes in `file`, whose content is `text`; `None` without a mistake.
    pub(crate) fn new(file: &str, text: &str, mut problems: Vec<Problem>) -> Option<Self> {
        problems.sort_by_key(|problem| problem.span.start);
        // Common settings are read once per node.
        problems.dedup();
        (!problems.is_empty()).then(|| ConfigErrors { file: file.into(), text: text.into(), problems })
    }
    /// The mistakes, in the order of lines; never empty.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
    /// Line and column of a problem's start, both from 1; the column counts characters.
    pub fn position(&self, problem: &Problem) -> (usize, usize) {
        let before = self.text.get(..problem.span.start).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
    /// Each problem with the lines of the file that it concerns, drawn for at most `width` columns.
    pub fn render(&self, drawing: Drawing, width: usize) -> String {
        let theme = match drawing {
            Drawing::Plain => GraphicalTheme::none(),
            Drawing::Coloured => GraphicalTheme::unicode(),
        };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(width.max(40)).with_links(false);
        let mut out = String::new();
        for problem in &self.problems {
            let (line, column) = self.position(problem);
            let mut drawn = MietteDiagnostic::new(format!("{}:{line}:{column}: {}", self.file, problem.message))
                .with_label(LabeledSpan::at(problem.span.clone(), "here"));
            drawn.help = (!problem.hint.is_empty()).then(|| problem.hint.clone());
            let drawn = Report::new(drawn).with_source_code(NamedSource::new(&self.file, self.text.to_string()));
            // Writing to a string fails only if the handler does; the plain form then has the same content.
            if handler.render_report(&mut out, &*drawn).is_err() {
                self.show_line(problem, &mut out).ok();
            }
        }
        out
    }

    fn show_line(&self, problem: &Problem, out: &mut dyn fmt::Write) -> fmt::Result {
        let (line, column) = self.position(problem);
        write!(out, "{}:{line}:{column}: {}", self.file, problem.message)?;
        if !problem.hint.is_empty() {
            write!(out, "\n  hint: {}", problem.hint)?;
        }
        Ok(())
    }
}
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            self.show_line(problem, f)?;
        }
        Ok(())
    }
}
impl std::error::Error for ConfigErrors {}

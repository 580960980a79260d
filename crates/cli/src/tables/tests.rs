use super::*;
use tributary::views::SourceView;

#[test]
fn a_progress_line_says_total_sources_and_paths() {
    let path = PathView {
        id: "path-1".into(),
        source: "attic".into(),
        state: "active".into(),
        mbps: 20.0,
        rtt_ms: Some(41.25),
        loss: 0.01,
        ..PathView::default()
    };
    let progress = ProgressView {
        bytes: 4 << 20,
        stored_bytes: 1 << 20,
        mbps: 20.0,
        sources: vec![SourceView { id: "attic".into(), mbps: 20.0, ..SourceView::default() }],
        paths: vec![path],
        ..ProgressView::default()
    };
    assert_eq!(
        progress_line(&progress),
        "1 MiB of 4 MiB (25.0 %) at 20.0 Mbit/s, 1 s left | attic 20.0 \
         | path-1 to attic active 20.0 Mbit/s rtt 41.2 ms loss 1.0 %"
    );
    let silent = ProgressView { mbps: 0.0, ..progress };
    assert!(progress_line(&silent).contains("nothing arrives now"));
    let waiting = ProgressView { name: "/a".into(), seconds: 2.0, ..ProgressView::default() };
    assert_eq!(progress_line(&waiting), "waiting for a source of '/a' (2 s)");
}

#[test]
fn the_table_of_a_resumed_fetch_has_what_was_here_before() {
    let source = SourceView { id: "attic".into(), bytes: 30, ..SourceView::default() };
    let done = DoneView { bytes: 100, resumed_bytes: 70, sources: vec![source], ..DoneView::default() };
    let lines = deliveries(&done);
    assert!(lines[1].contains("attic") && lines[1].contains("30.0 %"), "{lines:?}");
    assert!(lines[2].contains("this disk") && lines[2].contains("70.0 %"), "{lines:?}");
}

#[test]
fn what_others_are_called_moves_no_cursor_and_begins_no_line() {
    let label = "\u{1b}[2Jattic\u{9b}31m\nfetched\u{202e}";
    let source = SourceView { id: label.into(), bytes: 5, ..SourceView::default() };
    let path = PathView { source: label.into(), via: label.into(), reason: label.into(), ..PathView::default() };
    let done = DoneView { sources: vec![source.clone()], paths: vec![path.clone()], ..DoneView::default() };
    let progress = ProgressView { bytes: 5, sources: vec![source], paths: vec![path.clone()], ..Default::default() };
    let paths = Notice::Paths { transfer: label.into(), name: "/a".into(), paths: vec![path] };
    let mut lines = answer(&Notice::Done(done));
    lines.extend(answer(&paths));
    lines.extend(answer(&Notice::Note { text: label.into() }));
    lines.push(progress_line(&progress));
    assert!(lines.iter().all(|line| !line.contains(tributary_core::printable::is_unsafe)), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("\\u{1b}[2Jattic\\u{9b}31m\\nfetched")), "{lines:?}");
}

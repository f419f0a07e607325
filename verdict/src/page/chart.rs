//! The soundness ledger as a picture: a line for each term, as long as it has bits.

use tessera_verifier::ledger::Term;
use tessera_verifier::policy::MIN_BITS;

use super::html::Html;

/// The bits at the left and at the right end.
const AXIS: [f64; 2] = [80.0, 130.0];
const TICKS: [f64; 6] = [80.0, 90.0, 100.0, 110.0, 120.0, 130.0];
/// Pixels of a term, with its name above the line.
const ROW: f64 = 34.0;
/// Pixels above the first term, for the names of the two lines through all of them.
const TOP: f64 = 44.0;
/// Pixels below the last term, for the axis.
const BOTTOM: f64 = 30.0;

/// Where so many bits are on the axis, in percent of the width.
fn at(bits: f64) -> f64 {
    let [low, high] = AXIS;
    // A little room at both ends, for dots and numbers.
    2.0 + 94.0 * ((bits - low) / (high - low)).clamp(0.0, 1.0)
}

/// Draws terms, and the bits of the whole.
pub(super) fn draw(html: &mut Html, terms: &[Term], whole: f64) {
    let bottom = TOP + ROW * terms.len() as f64;
    html.raw("<svg class=\"chart\" role=\"img\" aria-label=\"The bits of every term of the ledger\" width=\"100%\"");
    html.number("height", bottom + BOTTOM, "");
    html.raw(">\n");
    for bits in TICKS {
        vertical(html, "<line class=\"grid\"", bits, TOP - 4.0, bottom);
        label(
            html,
            "<text class=\"axis\" text-anchor=\"middle\"",
            at(bits),
            bottom + 16.0,
            &format!("{bits:.0}"),
        );
    }
    vertical(html, "<line class=\"least\"", MIN_BITS, TOP - 24.0, bottom);
    label(
        html,
        "<text class=\"least\"",
        at(MIN_BITS) + 0.7,
        TOP - 28.0,
        &format!("least accepted: {MIN_BITS}"),
    );
    vertical(html, "<line class=\"whole\"", whole, TOP - 10.0, bottom);
    label(
        html,
        "<text class=\"whole\"",
        at(whole) + 0.7,
        TOP - 12.0,
        &format!("this proof: {whole:.1} bits"),
    );
    for (i, term) in terms.iter().enumerate() {
        let y = TOP + ROW * i as f64 + 24.0;
        label(html, "<text class=\"name\"", 2.0, y - 8.0, &term.name);
        label(
            html,
            "<text class=\"value\" text-anchor=\"end\"",
            100.0,
            y + 4.0,
            &format!("{:.1}", term.bits),
        );
        html.raw("<line class=\"term\"");
        html.number("x1", at(AXIS[0]), "%");
        html.number("x2", at(term.bits), "%");
        html.number("y1", y, "");
        html.number("y2", y, "");
        html.raw("/>\n<circle class=\"term\" r=\"4\"");
        html.number("cx", at(term.bits), "%");
        html.number("cy", y, "");
        html.raw("/>\n");
    }
    html.raw("</svg>\n");
}

fn vertical(html: &mut Html, begin: &'static str, bits: f64, from: f64, to: f64) {
    html.raw(begin);
    html.number("x1", at(bits), "%");
    html.number("x2", at(bits), "%");
    html.number("y1", from, "");
    html.number("y2", to, "");
    html.raw("/>\n");
}

fn label(html: &mut Html, begin: &'static str, x: f64, y: f64, text: &str) {
    html.raw(begin);
    html.number("x", x, "%");
    html.number("y", y, "");
    html.raw(">");
    html.text(text);
    html.raw("</text>\n");
}

//! How many leaves and nodes the queries of a proof open, on average: only the proof itself says which ones.

/// The different leaves of a tree of `2^depth` that so many random queries meet.
pub fn leaves(queries: usize, depth: u32) -> f64 {
    let all = f64::from(depth).exp2();
    // 1 - (1 - 1 / all)^queries, without cancellation.
    all * -(queries as f64 * (-1.0 / all).ln_1p()).exp_m1()
}

/// The nodes of the path of these leaves: on each level the neighbours that are not known.
pub fn path(queries: usize, depth: u32) -> f64 {
    let open = (0..depth).map(|level| 2.0 * leaves(queries, level) - leaves(queries, level + 1));
    open.sum()
}

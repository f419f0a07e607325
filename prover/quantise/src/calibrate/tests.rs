use super::maxima::{gate_max, pair_max, score_max, uncapped};
use super::*;

/// First rows of other tokens are leading ones as long as they are like those of the token of all texts. Where they are like rows of the
/// body instead, only that token's rows are leading; without such a token, or if leading rows were chosen otherwise, that is not so.
#[test]
fn first_rows_have_the_class_that_leaves_the_finest_units() {
    let all = LeadingRows {
        first: 1,
        run: true,
        token: None,
    };
    let two = LeadingRows { first: 2, ..all };
    let none = LeadingRows {
        first: 0,
        run: false,
        token: None,
    };
    let config = tessera_samples::odd_config();
    let place = |leading: LeadingRows, [body, lead, others]: [f32; 3], first: Option<u32>| {
        let mut calibration = Calibration::new(&config, leading);
        for (state, first_rows) in calibration.ranges.residual.iter_mut().zip(&mut calibration.others) {
            let row = |value: f32| vec![value; config.hidden];
            state.body.add(&row(body));
            state.lead.add(&row(lead));
            first_rows.add(&row(others));
        }
        calibration.place_first_rows(first);
        let ranges = calibration.ranges();
        let state = &ranges.residual[0];
        (ranges.leading.token, state.body.max[0], state.lead.max[0])
    };
    assert_eq!(place(all, [1.0, 9.0, 8.0], Some(2)), (None, 1.0, 9.0));
    assert_eq!(place(all, [1.0, 9.0, 10.0], Some(2)), (None, 1.0, 10.0));
    // A token whose rows are far smaller than those of all others in its place.
    assert_eq!(place(all, [1.0, 0.01, 1.5], Some(2)), (Some(2), 1.5, 0.01));
    assert_eq!(place(all, [1.0, 0.01, 1.5], None), (None, 1.0, 1.5));
    assert_eq!(place(two, [1.0, 0.01, 1.5], Some(2)), (None, 1.0, 1.5));
    assert_eq!(place(none, [1.0, 0.01, 1.5], Some(2)), (None, 1.5, 0.01));
    // Units of the body would be coarser by as much.
    assert_eq!(place(all, [0.01, 1.0, 1.5], Some(2)), (None, 0.01, 1.5));
}

#[test]
fn ranges_leave_out_what_has_no_influence() {
    assert_eq!(gate_max(&[-100.0, 3.0]), 16.0);
    assert_eq!(gate_max(&[-2.0, 30.0]), 30.0);
    assert_eq!(gate_max(&[-2.0, 1.0]), 2.0);
    assert_eq!(score_max(&[5.0, -10.0, -60.0]), 10.0);
    assert_eq!(score_max(&[-40.0, -41.0, -90.0]), 41.0);
    assert!((uncapped(50.0 * 2f32.tanh(), 50.0) - 100.0).abs() < 1e-2);
    assert_eq!([50.0, 51.0, 49.999].map(|s| uncapped(s, 50.0)), [250.0; 3]);
    assert_eq!(pair_max(&[3.0, 0.0, 4.0, 1.0], 4), 5.0);
}

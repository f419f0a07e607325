//! Attacks on means of rows.

use tessera_circuits::air::base;
use tessera_circuits::ops::means::{MEAN, REST};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::prove::trace::Columns;

use crate::cheat::{Hooks, HONEST};
use crate::{Caught, Scene};

#[test]
fn every_row_of_a_state_has_its_mean() {
    let scene = Scene::honest();
    scene.attempt(&HONEST).expect("an honest proof with means");
    let hidden = scene.model.key.config.hidden as i64;
    // Another mean; one more with all of the row left; another rest.
    let cases = [
        (1, 0, Caught::Claim("means")),
        (-1, hidden, Caught::Lookup),
        (1, -hidden, Caught::Lookup),
        (0, 1, Caught::Claim("means")),
    ];
    for (mean, rest, by) in cases {
        let columns = |_: &Shape, columns: &mut [Columns]| {
            let own = &mut columns[Part::MEANS.index()];
            own[MEAN][0] += base(mean);
            own[REST][0] += base(rest);
        };
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.assert_caught(by, &hooks);
    }
}

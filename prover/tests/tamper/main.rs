//! Soundness: no part of an honest proof can be changed.

mod tree;

use std::collections::BTreeMap;
use std::sync::OnceLock;
use tessera_circuits::model::{ModelConfig, Strategy};
use tessera_prover::progress::Silent;
use tessera_prover::prove::prove;
use tessera_prover::testing::{odd_config, random_ids, random_model, TestModel, TestRng};
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::Proof;
use tessera_verifier::verify::verify_bytes;

pub struct Honest { pub key: ModelKey, pub proof: Proof, pub bytes: Vec<u8> }

pub fn honest() -> &'static Honest {
    static HONEST: OnceLock<Honest> = OnceLock::new();
    HONEST.get_or_init(|| {
        let config = ModelConfig { layers: 1, ..odd_config() };
        let model = TestModel::new(random_model(config.clone(), Strategy::W12, 7));
        let report = prove(&model.prover(), &random_ids(&config, 4, 3), 3, &Silent).expect("an honest proof");
        Honest { key: model.key.clone(), proof: report.proof, bytes: report.bytes }
    })
}

#[test]
fn explore() {
    let h = honest();
    let t = std::time::Instant::now();
    assert_eq!(tree::encode(&h.proof), h.bytes);
    verify_bytes(&h.key, &h.bytes).expect("verifies");
    println!("{} bytes, verified in {:?}", h.bytes.len(), t.elapsed());
    println!("{:?}", h.proof.statement);
    let t = std::time::Instant::now();
    let mut tree = tree::Tree::new(&h.proof);
    println!("{} nodes {:?}", tree.nodes.len(), t.elapsed());
    let mut groups: BTreeMap<String, Vec<tree::Node>> = BTreeMap::new();
    for n in &tree.nodes { groups.entry(tree::collapse(&n.path)).or_default().push(n.clone()); }
    let mut rng = TestRng(1);
    for (name, nodes) in groups {
        let mut seen: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for i in 0..8 {
            let n = &nodes[if i == 0 {0} else if i == 1 {nodes.len()-1} else { rng.below(nodes.len() as u64) as usize }];
            for &op in &n.ops {
                let Some(p) = tree.tampered(n, op, i % 2 == 1, &mut rng) else { continue };
                let r = match verify_bytes(&h.key, &tree::encode(&p)) { Ok(_) => "ACCEPTED".to_string(), Err(e) => format!("{e:?}") };
                let e = seen.entry(format!("{op:?} => {r}")).or_insert((0, n.path.clone()));
                e.0 += 1;
            }
        }
        println!("{name} ({} nodes)", nodes.len());
        for (k, (c, p)) in seen { println!("    {k}  x{c} {p}"); }
    }
    println!("{:?}", t.elapsed());
}

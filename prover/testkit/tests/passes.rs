//! Weights that are streamed from a file give the same proofs as weights in memory, and stay within their budget.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::{MatmulKind, WeightFormat};
use tessera_model::generate::GenerateOptions;
use tessera_model::tiles::{tile_bytes, TileSource};
use tessera_model::weights::{PackedWeights, Residency};
use tessera_prover::prove;
use tessera_prover::vectors::bands::bind_bands;
use tessera_support::files;
use tessera_support::progress::Silent;
use tessera_testkit::{fixture_size_config, random_ids, random_model, SplitMix, TestModel};

const MIB: usize = 1 << 20;

fn mapped(path: &Path, format: WeightFormat, bytes: &[u8], residency: Residency) -> PackedWeights {
    files::write(path, bytes).unwrap();
    PackedWeights::mapped(format, files::map(path).unwrap()).with_residency(residency)
}

#[test]
fn streamed_weights_give_the_same_proof() {
    let dir = tempfile::tempdir().unwrap();
    for format in [WeightFormat::Int8, WeightFormat::Int16] {
        let mut model = TestModel::new(random_model(fixture_size_config(), format, 31));
        let prompt = random_ids(&model.key.config, 9, 31);
        let proved = |model: &TestModel, tokens| {
            prove(&model.prover(), &prompt, &GenerateOptions::exactly(tokens), &Silent).unwrap()
        };
        // 16 token rows, and 14, to which rows behind the text are added.
        let tokens = [8, 6];
        let kept = tokens.map(|tokens| proved(&model, tokens));
        assert!(kept
            .iter()
            .flat_map(|k| &k.weights)
            .all(|(_, t)| t.stall_seconds == 0.0));

        let bytes = model.quantised.weights.all().to_vec();
        let residency = Residency::Window { bytes: MIB };
        model.quantised.weights = mapped(&dir.path().join("weights"), format, &bytes, residency);
        let size = |kind: MatmulKind| (model.quantised.matmul(kind.at(0)).tiles() * tile_bytes(format)) as u64;
        let all = bytes.len() as u64;
        let pass = all - size(MatmulKind::Embed);
        for (tokens, kept) in tokens.into_iter().zip(&kept) {
            let streamed = proved(&model, tokens);
            assert!(streamed.bytes == kept.bytes, "{format:?}: the proofs differ");
            let expected = [
                // All rows are recorded while they are generated: no forward pass follows.
                ("generate", tokens as u64 * pass),
                ("matmuls", all),
                // The combined column, and the opened rows: there is no file of the codeword.
                ("open", 2 * all),
            ];
            for report in [kept, &streamed] {
                let read: Vec<(&str, u64)> = report
                    .weights
                    .iter()
                    .map(|(name, t)| (name.as_str(), t.bytes))
                    .collect();
                assert_eq!(read, expected);
            }
        }
    }
}

/// Bytes of a mapped file in the memory of this process.
#[cfg(target_os = "linux")]
fn resident(path: &Path) -> usize {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = smaps.lines();
    let mut total = 0;
    while let Some(line) = lines.next() {
        if line.ends_with(path.to_str().unwrap()) {
            let rss = lines.by_ref().find_map(|l| l.strip_prefix("Rss:")).unwrap();
            total += rss.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024;
        }
    }
    total
}

#[cfg(target_os = "linux")]
#[test]
fn streamed_weights_stay_within_their_budget() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weights");
    let mut rng = SplitMix(32);
    let bytes: Vec<u8> = (0..64 * MIB / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    let point: Vec<SecureField> = (0..6u32).map(|i| SecureField::from(77 + i)).collect();

    let kept = mapped(&path, WeightFormat::Int8, &bytes, Residency::Keep);
    let (expected, _) = bind_bands(&kept, &point, 0);
    assert!(
        resident(&path) >= 64 * MIB,
        "kept weights are in memory, so they can be seen there"
    );
    drop(kept);

    let streamed = mapped(&path, WeightFormat::Int8, &bytes, Residency::Window { bytes: 4 * MIB });
    let done = AtomicBool::new(false);
    let mut looks = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut looks = Vec::new();
            while !done.load(Ordering::Relaxed) {
                looks.push(resident(&path));
            }
            looks
        });
        let (sums, traffic) = bind_bands(&streamed, &point, 0);
        done.store(true, Ordering::Relaxed);
        assert!(*sums == *expected);
        assert_eq!(traffic.bytes, bytes.len() as u64);
        assert!(traffic.stall_seconds <= traffic.seconds);
        watch.join().unwrap()
    });
    // A look is not of one moment: it may have counted windows that were let go of before it came to those that were entered
    // meanwhile. Where other programs have the processor, a look takes long; so not all of them count. What is never let go of is seen
    // by half of the looks.
    looks.sort_unstable();
    let most = looks[looks.len() * 3 / 4];
    assert!(
        most <= 6 * MIB && looks[looks.len() - 1] > 0,
        "{most} bytes were in memory"
    );
    assert!(looks[looks.len() - 1] <= 32 * MIB, "{looks:?}");
    assert_eq!(resident(&path), 0);
    assert_eq!(streamed.tiles(), 64 * MIB / tile_bytes(WeightFormat::Int8));
}

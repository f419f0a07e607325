use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn cores_are_divided_among_workers() {
    let cores = core_sets(1).unwrap().remove(0);
    for workers in 1..=cores.len() {
        let sets = core_sets(workers).unwrap();
        assert!(sets.iter().all(|set| !set.is_empty()));
        assert_eq!(sets.concat(), cores);
    }
    for workers in [0, cores.len() + 1] {
        assert!(matches!(core_sets(workers), Err(WorkerError::TooFewCores { .. })));
    }
}

#[test]
fn a_worker_is_taken_until_its_guard_is_dropped() {
    let worker = CpuWorker::new(0, core_sets(1).unwrap().remove(0), 1 << 30).unwrap();
    let guard = worker.acquire().unwrap();
    assert!(matches!(worker.acquire(), Err(WorkerError::Taken { .. })));
    drop(guard);
    drop(worker.acquire().unwrap());
    // A panic in a chunk frees it, too.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = worker.acquire().unwrap();
        panic!("a chunk that fails");
    }));
    assert!(result.is_err());
    assert!(worker.acquire().is_ok());
}

#[test]
fn sealed_files_notice_every_changed_byte() {
    let job = Job {
        version: WORK_VERSION,
        tessera: "0".to_owned(),
        model: "ab".to_owned(),
        model_dir: "m".into(),
        out: "o".into(),
        prompt: vec![1, 2],
        tokens: 4,
        ignore_eos: true,
        output: vec![3],
        context: None,
        layers: vec![1, 2],
        activations: vec!["cd".to_owned()],
    };
    let text = sealed::text(&job).into_bytes();
    assert_eq!(sealed::parse::<Job>(&text).unwrap(), job);
    let refused = AtomicUsize::new(0);
    for at in 0..text.len() {
        let mut changed = text.clone();
        changed[at] ^= 1;
        match sealed::parse::<Job>(&changed) {
            Err(_) => refused.fetch_add(1, Ordering::Relaxed),
            // White space between fields.
            Ok(same) => {
                assert_eq!(same, job);
                0
            }
        };
    }
    assert!(refused.into_inner() > 200);
}

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn cores_are_divided_among_devices() {
    let cores = core_sets(1).unwrap().remove(0);
    for devices in 1..=cores.len() {
        let sets = core_sets(devices).unwrap();
        assert!(sets.iter().all(|set| !set.is_empty()));
        assert_eq!(sets.concat(), cores);
    }
    for devices in [0, cores.len() + 1] {
        assert!(matches!(core_sets(devices), Err(DeviceError::TooFewCores { .. })));
    }
}

#[test]
fn a_device_is_taken_until_its_guard_is_dropped() {
    let device = CpuDevice::new(0, core_sets(1).unwrap().remove(0), 1 << 30).unwrap();
    let guard = device.acquire().unwrap();
    assert!(matches!(device.acquire(), Err(DeviceError::Taken { .. })));
    drop(guard);
    drop(device.acquire().unwrap());
    // A panic in a chunk frees it, too.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = device.acquire().unwrap();
        panic!("a chunk that fails");
    }));
    assert!(result.is_err());
    assert!(device.acquire().is_ok());
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

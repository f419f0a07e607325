//! Proofs in chunks: interrupted, resumed, damaged, shared among processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use tempfile::TempDir;

use crate::args;
use crate::support::{copy_dir, done, edited_checkpoint, fails, names, tessera, with_full_disk, Shared, PROMPT};

/// A model of six layers, those of the bundled one three times over, and a finished job of it in three chunks.
struct Job {
    dir: TempDir,
}

impl Job {
    fn get() -> &'static Self {
        static JOB: OnceLock<Job> = OnceLock::new();
        JOB.get_or_init(|| {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let checkpoint = edited_checkpoint(dir.path(), repeat_layers);
            let path = checkpoint.join("config.json");
            let mut config: Value = serde_json::from_slice(&fs::read(&path).expect("a config")).expect("JSON");
            config["num_hidden_layers"] = json!(6);
            fs::write(&path, config.to_string()).expect("the config is written");
            let job = Self { dir };
            done(args!["setup", checkpoint, "--out", job.model()]);
            let report = done(job.prove(&job.path("work"), PROMPT, 4));
            assert_eq!((&report["mode"], &report["chunks"]), (&json!("chain"), &json!(3)));
            job
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn model(&self) -> PathBuf {
        self.path("model")
    }

    fn prove(&self, work: &Path, prompt: &str, tokens: u32) -> Vec<std::ffi::OsString> {
        let out = work.with_extension("proof");
        args![
            "prove",
            "--model",
            self.model(),
            "--prompt",
            prompt,
            "--tokens",
            tokens.to_string(),
            "--out",
            out,
            "--work",
            work,
            "--chunks",
            "3"
        ]
    }

    /// A copy of the finished work directory.
    fn copy(&self, to: &Path) -> PathBuf {
        copy_dir(&self.path("work"), to);
        to.to_owned()
    }
}

/// Layers 2 and 4 are layer 0 again, 3 and 5 layer 1.
fn repeat_layers(header: &mut Value, data: &mut Vec<u8>) {
    let map = header.as_object_mut().expect("an object");
    for (name, tensor) in map.clone() {
        let Some((layer, rest)) = name.strip_prefix("model.layers.").and_then(|n| n.split_once('.')) else {
            continue;
        };
        let layer: usize = layer.parse().expect("a number");
        let [start, end] = [0, 1].map(|i| tensor["data_offsets"][i].as_u64().expect("an offset") as usize);
        for copy in [layer + 2, layer + 4] {
            let mut tensor = tensor.clone();
            tensor["data_offsets"] = json!([data.len(), data.len() + end - start]);
            data.extend_from_within(start..end);
            map.insert(format!("model.layers.{copy}.{rest}"), tensor);
        }
    }
}

fn spawn(args: Vec<std::ffi::OsString>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command.args(args).args(["--quiet"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.expect("the binary runs")
}

#[test]
fn a_composed_proof_is_accepted_and_says_so() {
    let job = Job::get();
    let proof = job.path("work.proof");
    let verdict = done(args!["verify", "--key", job.model().join("model.key"), proof]);
    assert_eq!(
        (&verdict["verdict"], &verdict["mode"]),
        (&json!("accept"), &json!("chain"))
    );
    assert_eq!(verdict["chunks"], 3);
    let status = done(args!["status", job.path("work")]);
    assert_eq!((&status["done"], &status["left"]), (&json!(3), &json!(0)));
    // The other mode: the proof of the same statement in one piece.
    let unified = job.path("unified.proof");
    let report = done(args![
        "compose",
        job.path("work"),
        "--mode",
        "unified",
        "--out",
        unified
    ]);
    assert_eq!(report["mode"], "unified");
    let again = done(args!["verify", "--key", job.model().join("model.key"), unified]);
    assert_eq!(again["output_ids"], verdict["output_ids"]);
    assert!(again["proof_bytes"].as_u64() < verdict["proof_bytes"].as_u64());
}

#[test]
fn killed_at_random_moments_and_resumed_a_proof_is_the_same() {
    let (shared, dir) = (Shared::get(), tempfile::tempdir().expect("a temporary directory"));
    let prove = |name: &str| {
        let work = dir.path().join(name);
        args![
            "prove",
            "--model",
            shared.model(),
            "--prompt",
            PROMPT,
            "--tokens",
            "12",
            "--out",
            work.with_extension("proof"),
            "--work",
            work,
            "--chunk-layers",
            "1"
        ]
    };
    let clock = Instant::now();
    done(prove("whole"));
    let whole = clock.elapsed();
    let expected = fs::read(dir.path().join("whole.proof")).expect("a proof");
    let mut states = [0; 3];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for run in 0..20 {
        let name = format!("run{run}");
        let work = dir.path().join(&name);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut child = spawn(prove(&name));
        sleep(whole.mul_f64((random >> 40) as f64 / (1 << 24) as f64));
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        let proof = work.with_extension("proof");
        match work.join("job.json").exists() {
            true => {
                let status = done(args!["status", work]);
                states[1 + status["done"].as_u64().expect("a number").min(1) as usize] += 1;
                done(args!["resume", work]);
            }
            false => {
                states[0] += 1;
                assert!(!proof.exists());
                if work.exists() {
                    fails(args!["resume", work], &["has no job.json", "tessera prove --work"]);
                }
                done(prove(&name));
            }
        }
        assert!(fs::read(&proof).expect("a proof") == expected, "run {run}");
        // Nothing unfinished stays.
        let left = names(&work).into_iter().filter(|n| n.ends_with(".tmp"));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new(), "run {run}");
    }
    println!("killed before the job was written, before the first checkpoint, after it: {states:?}");
    assert!(states[1] + states[2] > 5, "{states:?}");
}

#[test]
#[cfg(unix)]
fn an_interruption_keeps_what_is_proved_and_says_how_to_go_on() {
    let (job, dir) = (Job::get(), tempfile::tempdir().expect("a temporary directory"));
    let work = dir.path().join("work");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command.args(job.prove(&work, PROMPT, 4)).stderr(Stdio::piped());
    let child = command.stdout(Stdio::null()).spawn().expect("the binary runs");
    while !(0..3).any(|i| work.join(format!("chunk_{i}.json")).exists()) {
        sleep(Duration::from_millis(5));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill")
        .args(["-INT", &id])
        .status()
        .expect("kill runs")
        .success());
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("tessera resume"), "{text}");
    done(args!["resume", work]);
    let same = fs::read(work.with_extension("proof")).expect("a proof");
    assert!(same == fs::read(job.path("work.proof")).expect("a proof"));
}

#[test]
#[cfg(unix)]
fn a_full_disk_loses_nothing_that_is_proved() {
    let (job, dir) = (Job::get(), tempfile::tempdir().expect("a temporary directory"));
    let work = dir.path().join("work");
    let output = with_full_disk(job.prove(&work, PROMPT, 4));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for word in ["cannot write", ".proof", "go on with tessera resume"] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let left = names(&work).into_iter().filter(|n| !n.ends_with("lock"));
    let expected = ["activation_0.bin", "activation_1.bin", "job.json"];
    assert_eq!(left.collect::<Vec<_>>(), expected);
    done(args!["resume", work]);
    let same = fs::read(work.with_extension("proof")).expect("a proof");
    assert!(same == fs::read(job.path("work.proof")).expect("a proof"));
}

/// Each damage is refused by `resume` and `compose`, which name chunk and cause, and nothing is thrown away.
fn refused(name: &str, damage: impl Fn(&Path), words: &[&str]) {
    let (job, dir) = (Job::get(), tempfile::tempdir().expect("a temporary directory"));
    let work = job.copy(&dir.path().join("work"));
    damage(&work);
    let before: Vec<_> = names(&work).iter().map(|n| fs::read(work.join(n)).expect(n)).collect();
    let out = dir.path().join("out.proof");
    fails(args!["compose", work, "--out", out], words);
    fails(args!["resume", work], words);
    assert!(!out.exists(), "{name}");
    let after: Vec<_> = names(&work).iter().map(|n| fs::read(work.join(n)).expect(n)).collect();
    assert!(before == after, "{name}: files changed");
}

fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("a file");
    change(&mut bytes);
    fs::write(path, bytes).expect("it is written");
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).expect("a file");
    assert!(text.contains(from), "{from} is not in {text}");
    fs::write(path, text.replacen(from, to, 1)).expect("it is written");
}

#[test]
fn damaged_checkpoints_are_named() {
    refused(
        "a checkpoint was edited",
        |w| replace(&w.join("chunk_1.json"), "\"milliseconds\"", "\"millisecondz\""),
        &["chunk 1", "was edited or damaged"],
    );
    refused(
        "a checkpoint is cut off",
        |w| edit(&w.join("chunk_2.json"), |b| b.truncate(100)),
        &["chunk 2", "not a JSON object"],
    );
    refused(
        "a proof is cut off",
        |w| edit(&w.join("chunk_0.proof"), |b| b.truncate(1000)),
        &["chunk 0", "has 1000 bytes"],
    );
    refused(
        "a bit of a proof is flipped",
        |w| edit(&w.join("chunk_2.proof"), |b| b[5000] ^= 4),
        &["chunk 2", "was changed"],
    );
    refused(
        "a proof is gone",
        |w| fs::remove_file(w.join("chunk_1.proof")).expect("it is removed"),
        &["chunk 1", "not readable"],
    );
    refused(
        "an activation was edited",
        |w| edit(&w.join("activation_1.bin"), |b| b[7] ^= 1),
        &["activation_1.bin", "not those of the job"],
    );
    refused(
        "an activation is gone",
        |w| fs::remove_file(w.join("activation_0.bin")).expect("it is removed"),
        &["activation_0.bin"],
    );
    refused(
        "the job was edited",
        |w| replace(&w.join("job.json"), "\"layers\"", "\"leyers\""),
        &["job.json", "was edited or damaged"],
    );
}

/// Moves the checkpoint and the proof of a chunk to another place.
fn graft(from: &Path, to: &Path, chunk: usize, place: usize) {
    for kind in ["json", "proof"] {
        let [from, to] = [(from, chunk), (to, place)].map(|(dir, i)| dir.join(format!("chunk_{i}.{kind}")));
        fs::copy(from, to).expect("a copy");
    }
}

#[test]
fn chunks_of_another_place_or_job_are_named() {
    let job = Job::get();
    let work = job.path("work");
    refused(
        "duplicated",
        |w| graft(&work, w, 0, 1),
        &["chunk 1", "another position"],
    );
    refused(
        "swapped",
        |w| {
            graft(&work, w, 1, 2);
            graft(&work, w, 2, 1);
        },
        &["chunk 1", "another position"],
    );
    let dir = tempfile::tempdir().expect("a temporary directory");
    let other = |name: &str, prompt: &str, chunks: &str, tokens: u32| {
        let to = dir.path().join(name);
        let mut args = job.prove(&to, prompt, tokens);
        *args.last_mut().expect("an argument") = chunks.into();
        done(args);
        to
    };
    let prompt = other("prompt", "The dog was", "3", 4);
    refused(
        "another prompt",
        |w| graft(&prompt, w, 1, 1),
        &["chunk 1", "another prompt or output"],
    );
    let longer = other("longer", PROMPT, "3", 5);
    refused(
        "another output",
        |w| graft(&longer, w, 0, 0),
        &["chunk 0", "another prompt or output"],
    );
    let division = other("division", PROMPT, "2", 4);
    refused(
        "another division",
        |w| graft(&division, w, 0, 0),
        &["chunk 0", "another division"],
    );
    // Another model: its id is in every checkpoint.
    let model = dir.path().join("w8");
    done(args![
        "setup",
        job.path("checkpoint"),
        "--out",
        model,
        "--strategy",
        "w8"
    ]);
    let foreign = dir.path().join("foreign");
    let mut args = job.prove(&foreign, PROMPT, 4);
    args[2] = model.clone().into();
    done(args);
    refused(
        "another model",
        |w| graft(&foreign, w, 2, 2),
        &["chunk 2", "another model"],
    );
    fails(args!["resume", work, "--model", model], &["job.json", "another model"]);
}

/// A thief who also forges the digests of a checkpoint is caught by the proof.
#[test]
fn a_forged_checkpoint_does_not_make_a_proof() {
    use blake2::{Blake2s256, Digest};
    let job = Job::get();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let longer = dir.path().join("other");
    done(job.prove(&longer, "The dog was", 4));
    let digest = |bytes: &[u8]| {
        let mut hash = Blake2s256::new();
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
        hash.finalize().iter().map(|b| format!("{b:02x}")).collect::<String>()
    };
    refused(
        "a forged checkpoint",
        |w| {
            fs::copy(longer.join("chunk_1.proof"), w.join("chunk_1.proof")).expect("a copy");
            let bytes = fs::read(w.join("chunk_1.proof")).expect("a proof");
            let path = w.join("chunk_1.json");
            let mut json: Value = serde_json::from_slice(&fs::read(&path).expect("a checkpoint")).expect("JSON");
            json["proof"]["digest"] = json!(digest(&bytes));
            json["proof_bytes"] = json!(bytes.len());
            json.as_object_mut().expect("an object").remove("digest");
            json["digest"] = json!(digest(json.to_string().as_bytes()));
            fs::write(&path, json.to_string()).expect("it is written");
        },
        &["chunk 1", "does not verify"],
    );
}

#[test]
fn a_removed_chunk_is_proved_again() {
    let (job, dir) = (Job::get(), tempfile::tempdir().expect("a temporary directory"));
    let work = job.copy(&dir.path().join("work"));
    let out = dir.path().join("out.proof");
    fs::remove_file(work.join("chunk_1.json")).expect("it is removed");
    fails(args!["compose", work, "--out", out], &["not proved yet: 1"]);
    let status = done(args!["status", work]);
    assert_eq!(status["chunks"][1]["state"], "open");
    done(args!["prove-chunk", "--work", work, "--chunk", "1"]);
    let again = done(args!["prove-chunk", "--work", work, "--chunk", "1"]);
    assert_eq!(again["done_before"], true);
    fails(args!["prove-chunk", "--work", work, "--chunk", "3"], &["no chunk 3"]);
    done(args!["compose", work, "--out", out]);
    assert!(fs::read(out).expect("a proof") == fs::read(job.path("work.proof")).expect("a proof"));
}

#[test]
fn two_drivers_of_one_directory_are_kept_apart() {
    let (job, dir) = (Job::get(), tempfile::tempdir().expect("a temporary directory"));
    let work = job.copy(&dir.path().join("work"));
    let lock = fs::File::create(work.join("lock")).expect("the lock");
    lock.try_lock().expect("it is free");
    fails(args!["resume", work], &["worked on by another process"]);
    drop(lock);
    fs::remove_file(work.join("chunk_2.json")).expect("it is removed");
    let lock = fs::File::create(work.join("chunk_2.lock")).expect("the lock");
    lock.try_lock().expect("it is free");
    assert_eq!(done(args!["status", work])["chunks"][2]["state"], "busy");
    let words = ["chunk 2 is being proved by another process"];
    fails(args!["prove-chunk", "--work", work, "--chunk", "2"], &words);
    fails(args!["resume", work], &words);
    drop(lock);
    done(args!["prove-chunk", "--work", work, "--chunk", "2"]);
}

/// A chunk whose proof is gone, or is not as it was written, is not proved: `status` says so, and what to do.
#[test]
fn a_chunk_without_its_proof_does_not_count_as_proved() {
    let (job, dir) = (Job::get(), tempfile::tempdir().expect("a temporary directory"));
    for (gone, word) in [(true, "is not readable"), (false, "was changed")] {
        let work = job.copy(&dir.path().join(word));
        let proof = work.join("chunk_1.proof");
        match gone {
            true => fs::remove_file(proof).expect("it is removed"),
            false => edit(&proof, |bytes| bytes[100] ^= 1),
        }
        let status = done(args!["status", work]);
        assert_eq!((&status["done"], &status["left"]), (&json!(2), &json!(1)), "{status}");
        assert_eq!(status["chunks"][1]["state"], "damaged");
        let text = status["chunks"][1]["checkpoint"]["error"].as_str().expect("a reason");
        for word in [word, "chunk_1.proof", "remove", "chunk_1.json"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        fails(
            args!["prove-chunk", "--work", work, "--chunk", "1"],
            &[word, "chunk_1.json"],
        );
        fs::remove_file(work.join("chunk_1.json")).expect("it is removed");
        assert_eq!(done(args!["resume", work])["chunks"], 3);
    }
}

#[test]
fn another_request_does_not_touch_a_job() {
    let job = Job::get();
    let work = job.path("work");
    let resume = format!("tessera resume {}", work.display());
    fails(job.prove(&work, "Another prompt", 4), &[&resume, "another prompt"]);
    fails(job.prove(&work, PROMPT, 5), &["another number of tokens"]);
    let mut other = job.prove(&work, PROMPT, 4);
    *other.last_mut().expect("an argument") = "2".into();
    fails(other, &["another division in chunks", &resume]);
    // Without a number of chunks, those of the first run are not guessed.
    let mut bare = job.prove(&work, PROMPT, 4);
    bare.truncate(bare.len() - 2);
    fails(bare, &["another division in chunks", &resume]);
    // The same request goes on with it: nothing is left to do.
    done(job.prove(&work, PROMPT, 4));
    let missing = job.path("nothing");
    fails(args!["resume", missing], &["has no job.json"]);
    assert!(!missing.exists());
}

#[test]
fn devices_share_the_chunks_and_events_tell_of_them() {
    let (job, dir) = (Job::get(), tempfile::tempdir().expect("a temporary directory"));
    let cores = std::thread::available_parallelism().expect("cores").get();
    let devices = cores.min(2);
    let (work, events) = (dir.path().join("work"), dir.path().join("events"));
    let mut args = job.prove(&work, PROMPT, 4);
    args.extend(args!["--devices", devices.to_string(), "--events", events]);
    let report = done(args);
    assert_eq!(report["devices"], devices);
    assert!(
        fs::read(work.with_extension("proof")).expect("a proof") == fs::read(job.path("work.proof")).expect("a proof")
    );
    let text = fs::read_to_string(events).expect("events");
    let events: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let of = |kind: &str| events.iter().filter(|e| e["event"] == kind).collect::<Vec<_>>();
    assert_eq!((of("begin").len(), of("end").len(), of("composed").len()), (3, 3, 1));
    assert_eq!(of("phase").len(), 3 * 10);
    let used: std::collections::BTreeSet<&str> = of("begin").iter().filter_map(|e| e["device"].as_str()).collect();
    assert_eq!(used.len(), devices, "{used:?}");
    let mut args = job.prove(&dir.path().join("many"), PROMPT, 4);
    args.extend(args!["--devices", (cores + 1).to_string()]);
    fails(args, &["a device needs a core of its own"]);
}

#[test]
fn a_prepared_job_is_proved_by_other_processes() {
    let (job, dir) = (Job::get(), tempfile::tempdir().expect("a temporary directory"));
    let work = dir.path().join("work");
    let mut args = job.prove(&work, PROMPT, 4);
    args.push("--prepare".into());
    let status = done(args);
    assert_eq!((&status["done"], &status["left"]), (&json!(0), &json!(3)));
    let workers = [2, 0, 1].map(|i: u32| spawn(args!["prove-chunk", "--work", work, "--chunk", i.to_string()]));
    for mut worker in workers {
        assert!(worker.wait().expect("it ends").success());
    }
    done(args!["compose", work]);
    assert!(
        fs::read(work.with_extension("proof")).expect("a proof") == fs::read(job.path("work.proof")).expect("a proof")
    );
}

#[test]
fn impossible_divisions_are_refused() {
    let (job, dir) = (Job::get(), tempfile::tempdir().expect("a temporary directory"));
    let work = dir.path().join("work");
    let mut args = job.prove(&work, PROMPT, 4);
    *args.last_mut().expect("an argument") = "7".into();
    fails(args, &["7 chunks are too many", "6 layers"]);
    let mut args = job.prove(&work, PROMPT, 4);
    args.extend(args!["--memory", "10MB"]);
    fails(args, &["memory budget", "a chunk of this proof needs"]);
    assert!(!work.exists());
    let output = tessera(args![
        "prove",
        "--model",
        job.model(),
        "--prompt",
        PROMPT,
        "--tokens",
        "4",
        "--out",
        "x",
        "--chunks",
        "2"
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--work"));
}

/// `status --watch` ends when the last chunk is proved; without a terminal it has a line for each change.
#[test]
fn a_watched_job_is_shown_until_it_is_done() {
    let (job, dir) = (Job::get(), tempfile::tempdir().unwrap());
    let work = job.copy(&dir.path().join("work"));
    let finished = tessera(args!["status", "--watch", work]);
    assert!(finished.status.success() && finished.stderr.is_empty(), "{finished:?}");
    fs::remove_file(work.join("chunk_1.json")).expect("it is removed");
    let watch = Command::new(env!("CARGO_BIN_EXE_tessera"))
        .args(args!["status", "--watch", work])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // Long enough for a look at the job as it is.
    sleep(Duration::from_millis(500));
    done(args!["resume", work]);
    let output = watch.wait_with_output().expect("it ends");
    let [text, lines] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success() && text.contains("left     0\n"), "{text}");
    assert!(lines.contains("layers 2 to 3: open; nobody is proving\n"), "{lines}");
    assert!(
        lines.lines().filter(|line| line.starts_with("chunk 0")).count() == 1,
        "{lines}"
    );
}

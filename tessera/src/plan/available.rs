//! How much memory this process may still take, as the system tells it: what the machine has, what the process's
//! control groups (of both versions) leave, and what its limit of address space leaves. All three are files, which
//! tests make up.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Address space that a thread takes beside what it works on: its stack.
const THREAD: u64 = 4 << 20;
/// From here on a limit is none; the first version of control groups says "unlimited" as a large number.
const UNLIMITED: u64 = 1 << 60;

/// The limit that leaves the least memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The memory that the machine has available.
    Machine,
    /// The limit of a control group, named by its directory.
    Group(PathBuf),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("the machine"),
            Self::Group(dir) => write!(f, "the control group {}", dir.display()),
        }
    }
}

/// Memory that can be taken without more of it being freed elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes that can be taken.
    pub bytes: u64,
    /// The limit that `bytes` comes from, the tightest of all.
    pub bound: Bound,
}

impl Available {
    /// Reads from the system how much is available now; `None` where the system does not tell.
    pub fn now() -> Option<Self> {
        Self::under(Path::new("/"))
    }

    /// Does what [`Self::now`] does, with the files of the system under `root`.
    fn under(root: &Path) -> Option<Self> {
        let machine = field(&root.join("proc/meminfo"), "MemAvailable:").map(|bytes| Self {
            bytes,
            bound: Bound::Machine,
        });
        let all = machine.into_iter().chain(groups(root));
        all.min_by_key(|available| available.bytes)
    }
}

/// Bytes of address space that this process may still take if it starts `threads` more threads and maps files of
/// `mapped` bytes; `None` where there is no limit.
pub fn address_space(mapped: u64, threads: usize) -> Option<u64> {
    address_space_under(Path::new("/"), mapped, threads)
}

fn address_space_under(root: &Path, mapped: u64, threads: usize) -> Option<u64> {
    let limits = fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let line = limits.lines().find_map(|l| l.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let size = field(&root.join("proc/self/status"), "VmSize:").unwrap_or(0);
    let threads = (threads as u64).saturating_mul(THREAD);
    let taken = size.saturating_add(mapped).saturating_add(threads);
    Some(limit.saturating_sub(taken))
}

/// A field of a file of `name: number kB` lines, in bytes.
fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// A hierarchy of control groups that limits memory: where it is mounted, and which of its groups is mounted there.
struct Hierarchy {
    mounted: PathBuf,
    group: PathBuf,
    /// Whether it is of the second version.
    unified: bool,
}

/// Memory that each control group of this process leaves, from the process's own up to the one that is mounted.
fn groups(root: &Path) -> Vec<Available> {
    let text = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let (own, mounts) = (text("proc/self/cgroup"), text("proc/self/mountinfo"));
    let mut found = Vec::new();
    for h in mounts.lines().filter_map(hierarchy) {
        let Some(group) = own.lines().find_map(|line| member(line, h.unified)) else {
            continue;
        };
        // Inside a container the own group may be named as it is outside: then it is the one that is mounted.
        let inside = group.strip_prefix(&h.group).unwrap_or(Path::new(""));
        for dir in inside.ancestors() {
            // Without a slash at the end.
            let dir: PathBuf = h.mounted.join(dir).components().collect();
            if let Some(bytes) = left(&below(root, &dir), h.unified) {
                let bound = Bound::Group(dir);
                found.push(Available { bytes, bound });
            }
        }
    }
    found
}

/// An absolute path of the system as one under `root`.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// A line of `/proc/self/mountinfo`, if it is of control groups with a memory controller.
fn hierarchy(line: &str) -> Option<Hierarchy> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (group, mounted) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let kind = system.next()?;
    let options = system.nth(1).unwrap_or_default();
    let unified = kind == "cgroup2";
    let memory = kind == "cgroup" && options.split(',').any(|option| option == "memory");
    (unified || memory).then(|| Hierarchy {
        mounted: mounted.into(),
        group: group.into(),
        unified,
    })
}

/// The group that a line of `/proc/self/cgroup` names, if it is of this version and of memory.
fn member(line: &str, unified: bool) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
    let own = match unified {
        true => controllers.is_empty(),
        false => controllers.split(',').any(|c| c == "memory"),
    };
    own.then(|| group.into())
}

/// Bytes that a control group leaves of its limit; `None` without a limit. Pages of files that are not in use count as
/// free.
fn left(dir: &Path, unified: bool) -> Option<u64> {
    let number = |name: &str| {
        let text = fs::read_to_string(dir.join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let (limits, usage, inactive): (&[&str], &str, &str) = match unified {
        true => (&["memory.max", "memory.high"], "memory.current", "inactive_file "),
        false => (
            &["memory.limit_in_bytes"],
            "memory.usage_in_bytes",
            "total_inactive_file ",
        ),
    };
    let limit = limits.iter().filter_map(|name| number(name)).min();
    let limit = limit.filter(|limit| *limit < UNLIMITED)?;
    let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
    let freeable = stat.lines().find_map(|l| l.strip_prefix(inactive)?.trim().parse().ok());
    let used = number(usage).unwrap_or(0).saturating_sub(freeable.unwrap_or(0));
    Some(limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "35 25 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      36 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    /// A made-up system: paths and contents.
    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let machine = [("proc/meminfo", "MemTotal: 2000 kB\nMemAvailable:    1000 kB\n")];
        for (name, text) in machine.iter().chain(files) {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn available(files: &[(&str, &str)]) -> Option<Available> {
        Available::under(system(files).path())
    }

    fn group(bytes: u64, dir: &str) -> Option<Available> {
        let bound = Bound::Group(dir.into());
        Some(Available { bytes, bound })
    }

    fn machine() -> Option<Available> {
        let (bytes, bound) = (1000 << 10, Bound::Machine);
        Some(Available { bytes, bound })
    }

    #[test]
    fn without_groups_the_machine_decides() {
        assert_eq!(available(&[]), machine());
        let unlimited = [
            ("proc/self/mountinfo", V2),
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.current", "5000\n"),
        ];
        assert_eq!(available(&unlimited), machine());
        assert_eq!(Available::under(tempfile::tempdir().unwrap().path()), None);
    }

    /// The tightest group decides, wherever above the process it is: a job is often limited by its parent group.
    #[test]
    fn every_group_above_the_process_counts() {
        let mut files = vec![
            ("proc/self/mountinfo", V2),
            ("proc/self/cgroup", "0::/slice/job/step\n"),
            ("sys/fs/cgroup/slice/job/step/memory.max", "max\n"),
            ("sys/fs/cgroup/slice/job/step/memory.current", "100\n"),
            ("sys/fs/cgroup/slice/job/memory.max", "500000\n"),
            ("sys/fs/cgroup/slice/job/memory.current", "120000\n"),
            (
                "sys/fs/cgroup/slice/job/memory.stat",
                "anon 1\ninactive_file 20000\nactive_file 7\n",
            ),
        ];
        assert_eq!(available(&files), group(400_000, "/sys/fs/cgroup/slice/job"));
        files.push(("sys/fs/cgroup/slice/job/memory.high", "300000\n"));
        assert_eq!(available(&files), group(200_000, "/sys/fs/cgroup/slice/job"));
        files.push(("sys/fs/cgroup/slice/memory.max", "90000\n"));
        files.push(("sys/fs/cgroup/slice/memory.current", "95000\n"));
        assert_eq!(available(&files), group(0, "/sys/fs/cgroup/slice"));
    }

    #[test]
    fn groups_of_the_first_version_count_as_well() {
        let mut files = vec![
            ("proc/self/mountinfo", V1),
            ("proc/self/cgroup", "5:cpu:/other\n4:cpuset,memory:/docker/x\n"),
            (
                "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", "100\n"),
        ];
        assert_eq!(available(&files), machine());
        files.push(("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "700000\n"));
        files.push(("sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "300000\n"));
        files.push((
            "sys/fs/cgroup/memory/docker/memory.stat",
            "inactive_file 9\ntotal_inactive_file 50000\n",
        ));
        assert_eq!(available(&files), group(450_000, "/sys/fs/cgroup/memory/docker"));
    }

    /// A container sees its own group where the hierarchy is mounted, and may know it by the name that it has outside.
    #[test]
    fn a_container_is_in_the_group_that_is_mounted() {
        for (mounted, own) in [
            ("/docker/x", "/docker/x"),
            ("/docker/x", "/docker/x/y"),
            ("/", "/"),
            ("/../x", "/docker/x"),
        ] {
            let mounts = V2.replace("0:26 / ", &format!("0:26 {mounted} "));
            let own = format!("0::{own}\n");
            let files = [
                ("proc/self/mountinfo", mounts.as_str()),
                ("proc/self/cgroup", own.as_str()),
                ("sys/fs/cgroup/memory.max", "400000"),
                ("sys/fs/cgroup/memory.current", "100000"),
            ];
            assert_eq!(available(&files), group(300_000, "/sys/fs/cgroup"), "{mounted} {own}");
        }
    }

    #[test]
    fn mapped_files_and_threads_take_address_space() {
        let limits = |value: &str| {
            let text = format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max resident set          unlimited            unlimited            bytes     \n\
                 Max address space         {value:20} unlimited            bytes     \n"
            );
            let root = system(&[
                ("proc/self/limits", text.as_str()),
                ("proc/self/status", "VmSize:\t  1000 kB\n"),
            ]);
            address_space_under(root.path(), 24_000, 2)
        };
        assert_eq!(limits("unlimited"), None);
        assert_eq!(
            limits("1000000000"),
            Some(1_000_000_000 - (1000 << 10) - 24_000 - 2 * THREAD)
        );
        assert_eq!(limits("1000000"), Some(0));
        assert_eq!(address_space_under(system(&[]).path(), 0, 1), None);
    }
}

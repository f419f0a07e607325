//! Where a program is cut, so that a chain takes every segment of it in a transaction of its own.

use std::collections::BTreeMap;

use crate::compile::{Element, Instruction, Step, CONSTANT};
use crate::encode::Encoder;

/// What a segment may take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes of what it is given: elements, and the words of the statement.
    pub bytes: usize,
    /// Gas, that of its calldata among it.
    pub gas: u64,
}

impl Budget {
    /// The budget of a transaction of Ethereum, `2^17` bytes and `2^24` gas, less what is around elements and words: 1,024 bytes that
    /// `submit.mjs` leaves free, digests, results and the addresses of pages; and the gas of the calls.
    pub const TRANSACTION: Self = Self {
        bytes: 129_000,
        gas: 13_000_000,
    };

    /// How many elements of sixteen bytes there is room for beside so many words of four.
    const fn elements(self, words: usize) -> usize {
        self.bytes.saturating_sub(4 * words) / 16
    }
}

/// Gas of taking and leaving an element: sixteen bytes of calldata, its digest and copies.
const CARRIED: u64 = 420;
/// The most bytes of a page: contracts have 24,576, and one is in front.
pub const PAGE: usize = 24_575;
/// Gas of loading a page, and of the memory that all are loaded into.
const LOADED: u64 = 6_000;

/// A piece of a program, in pages, each of which is stored as a contract. Its registers are what the one before it left, in order, its
/// constants, and what its instructions write. The last instruction says which registers it leaves.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The bytes.
    pub pages: Vec<Vec<u8>>,
    /// How many elements it is given.
    pub given: usize,
    /// How many it leaves.
    pub left: usize,
    /// How many it has.
    pub registers: usize,
    /// Gas that it takes about, calldata at 16 gas a byte included.
    pub gas: u64,
}

impl Segment {
    /// Bytes of all pages.
    pub fn bytes(&self) -> usize {
        self.pages.iter().map(Vec::len).sum()
    }
}

/// Gas of memory of so many registers, of a word each, and of a page.
const fn memory(registers: u64) -> u64 {
    let words = registers + 1_024;
    3 * words + words * words / 512
}

/// Words of memory behind the register that an extension of a function is written to: sums of all subsets of eight registers, for each
/// eight of 256.
const SUBSETS: u64 = 1 << 13;

/// How many places of a program are looked at.
const PLACES: usize = 4_096;

struct Cutter<'a> {
    instructions: &'a [Instruction],
    /// Where each element is written, and read last.
    written: Vec<usize>,
    last: Vec<usize>,
    outputs: &'a [Element],
    inputs: usize,
    elements: usize,
    budget: Budget,
}

impl Cutter<'_> {
    /// What is written before an instruction and read by it or later, ascending.
    fn live(&self, at: usize) -> Vec<Element> {
        let both = self.written.iter().zip(&self.last).zip(0..);
        both.filter_map(|((written, last), own)| (*written < at && *last >= at).then_some(own))
            .collect()
    }

    /// How many elements are live before each instruction.
    fn counts(&self) -> Vec<usize> {
        let mut changes = vec![0isize; self.instructions.len() + 2];
        for (written, last) in self.written.iter().zip(&self.last) {
            if last >= written && *last > 0 {
                let first = written + 1;
                changes.get_mut(first).into_iter().for_each(|own| *own += 1);
                changes.get_mut(last + 1).into_iter().for_each(|own| *own -= 1);
            }
        }
        let mut own = 0;
        let sums = changes.into_iter().map(|change| {
            own += change;
            own.max(0) as usize
        });
        sums.take(self.instructions.len() + 1).collect()
    }

    fn segment(&self, from: usize, to: usize) -> Option<Segment> {
        let given = match from {
            0 => (0..self.inputs as Element).collect(),
            _ => self.live(from),
        };
        let left = match to == self.instructions.len() {
            true => self.outputs.to_vec(),
            false => self.live(to),
        };
        let own = self.instructions.get(from..to)?;
        let reads = own.iter().flat_map(Instruction::reads).chain(left.iter().copied());
        let mut constants: Vec<Element> = reads.filter(|own| own & CONSTANT != 0).collect();
        constants.sort_unstable();
        constants.dedup();
        let before = given.len() + constants.len();
        let mut places: BTreeMap<Element, u32> = given.iter().chain(&constants).copied().zip(0..).collect();
        let mut next = before;
        for own in own {
            (own.to..own.to + own.count).zip(next as u32..).for_each(|(own, at)| {
                places.insert(own, at);
            });
            next += own.count as usize;
        }
        if next > 1 << 16 {
            return None;
        }
        let place = |own: Element| places.get(&own).copied();
        let mut encoder = Encoder::default();
        let at = left.iter().map(|own| place(*own)).collect::<Option<Vec<u32>>>()?;
        encoder.constants(&constants.iter().map(|own| own ^ CONSTANT).collect::<Vec<_>>());
        for own in own {
            encoder.instruction(own, &place)?;
        }
        encoder.leave(&at)?;
        let pages = encoder.pages(PAGE)?;
        let curves = own.iter().filter(|own| matches!(own.step, Step::Curve(..)));
        let curves = curves.filter_map(|own| Some(u64::from(place(own.to)?) + 1 + SUBSETS));
        let words = curves.fold(next as u64, u64::max);
        let carried = CARRIED * (given.len() + left.len()) as u64;
        Some(Segment {
            gas: encoder.gas + memory(words) + carried + LOADED * pages.len() as u64,
            pages,
            given: given.len(),
            left: left.len(),
            registers: next,
        })
    }

    /// Where to cut: as few segments as there can be, then with as few elements between them.
    fn cuts(&self, slack: usize) -> Option<Vec<usize>> {
        let count = self.instructions.len();
        let live = self.counts();
        let (mut gas, mut registers) = (vec![0], vec![0]);
        let mut encoder = Encoder::default();
        for own in self.instructions {
            encoder.instruction(own, &|own| Some(own & !CONSTANT))?;
            gas.push(encoder.gas + encoder.code.len() as u64 * LOADED / PAGE as u64);
            registers.push(registers.last()? + u64::from(own.count));
        }
        let curves: Vec<usize> = (self.instructions.iter().zip(0..))
            .filter_map(|(own, at)| matches!(own.step, Step::Curve(..)).then_some(at))
            .collect();
        // Of long programs not every place is looked at.
        let step = count.div_ceil(PLACES).max(1);
        let places: Vec<usize> = (0..count).step_by(step).chain([count]).collect();
        let fits = |from: usize, to: usize| -> Option<bool> {
            let given = if from == 0 { self.inputs } else { *live.get(from)? };
            let left = if to == count {
                self.outputs.len()
            } else {
                *live.get(to)?
            };
            let held = registers.get(to)? - registers.get(from)? + given as u64;
            let within = curves.iter().filter(|at| (from..to).contains(*at));
            let before = within.filter_map(|at| Some(registers.get(*at)? - registers.get(from)? + given as u64));
            let words = before.map(|before| before + 1 + SUBSETS).fold(held, u64::max);
            let all = gas.get(to)? - gas.get(from)? + memory(words) + CARRIED * (given + left) as u64;
            let within = all + 100 * slack as u64 <= self.budget.gas && held + (slack as u64) < 1 << 16;
            Some(given <= self.elements && within)
        };
        // The fewest segments to each place, the elements between them, and the place before.
        let mut best: Vec<Option<(usize, usize, usize)>> = vec![None; count + 1];
        *best.first_mut()? = Some((0, 0, 0));
        for (i, to) in places.iter().copied().enumerate().skip(1) {
            let mut own = None;
            for from in places.iter().take(i).rev().copied() {
                // What it has of its own only grows.
                if gas.get(to)? - gas.get(from)? > self.budget.gas {
                    break;
                }
                if !fits(from, to)? {
                    continue;
                }
                let Some((segments, elements, _)) = best.get(from).copied().flatten() else {
                    continue;
                };
                let next = (segments + 1, elements + live.get(from)?, from);
                own = Some(own.map_or(next, |own: (usize, usize, usize)| own.min(next)));
            }
            *best.get_mut(to)? = own;
        }
        let (mut cuts, mut at) = (vec![count], count);
        while at > 0 {
            at = best.get(at).copied().flatten()?.2;
            cuts.push(at);
        }
        cuts.reverse();
        Some(cuts)
    }
}

/// A program as segments, for statements of so many words. `None` if one instruction is too long.
pub fn cut(
    instructions: &[Instruction],
    inputs: usize,
    outputs: &[Element],
    (budget, words): (Budget, usize),
) -> Option<Vec<Segment>> {
    let elements = budget.elements(words);
    let end = instructions.last().map_or(inputs, |own| (own.to + own.count) as usize);
    let (mut written, mut last) = (vec![0; inputs], vec![0; end]);
    for (i, own) in instructions.iter().enumerate() {
        written.extend(std::iter::repeat_n(i, own.count as usize));
        let reads = own.reads().filter(|own| own & CONSTANT == 0);
        reads.for_each(|own| last.get_mut(own as usize).into_iter().for_each(|own| *own = i));
    }
    for own in outputs.iter().filter(|own| **own & CONSTANT == 0) {
        last.get_mut(*own as usize)
            .into_iter()
            .for_each(|own| *own = instructions.len());
    }
    let cutter = Cutter {
        instructions,
        written,
        last,
        outputs,
        inputs,
        elements,
        budget,
    };
    // Constants are written in every segment that reads them, and runs end at cuts: how much that is shows when it is done.
    for slack in [0, 1_000, 4_000, 12_000] {
        let cuts = cutter.cuts(slack)?;
        let segments: Option<Vec<Segment>> = (cuts.iter().zip(cuts.iter().skip(1)))
            .map(|(from, to)| cutter.segment(*from, *to))
            .collect();
        let fits = |own: &Segment| own.given <= elements && own.gas <= budget.gas;
        if let Some(segments) = segments.filter(|own| own.iter().all(fits)) {
            return Some(segments);
        }
    }
    None
}

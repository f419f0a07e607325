use super::*;
use crate::bind::eval_base;
use crate::column::{of_elements, Column};
use crate::scalar::Scalar;
use crate::small::config;
use crate::trace::Columns;
use crate::vectors::Vectors;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::band::Band;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{LimbSet, Limbs};
use tessera_circuits::scalar::{Source, Word};
use tessera_circuits::text::TextEnd;
use tessera_circuits::wiring::suffix;
use tessera_support::random::SplitMix;
use tessera_verifier::message::Unread;
use tessera_verifier::sumcheck::{instance_scale, verify};
use tessera_verifier::transcript::Transcript;

fn shape(rows: usize) -> Shape {
    Shape::with_limbs(&config(), LimbSet::all(Limbs::One), &Chunk::whole(3), rows)
}

struct Random(SplitMix);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    fn element(&mut self) -> K {
        let mut word = || self.0.below((1 << 31) - 1) as u32;
        K::from_u32_unchecked(word(), word(), word(), word())
    }

    fn elements(&mut self, n: usize) -> Vec<K> {
        (0..n).map(|_| self.element()).collect()
    }

    /// Where some text ends, in blocks of so many rows.
    fn end(&mut self, block: u32) -> TextEnd {
        let last = Word::new(self.below(1 << 12), Source::LastRow);
        TextEnd { last, block }
    }

    fn weight(&mut self, log: u32, kind: usize) -> Weight {
        match kind {
            0 => Weight::Eq(self.elements(log as usize)),
            1 => Weight::Ones(log),
            2 => Weight::dense(self.elements(1 << log)),
            3 if log.is_multiple_of(2) => {
                let half = log as usize / 2;
                let block = half as u32;
                let end = (self.below(2) == 0).then(|| self.end(block));
                let band = match self.below(2) {
                    0 => Band::CAUSAL,
                    _ => Band { from: -3, to: 2 },
                };
                Weight::Open(self.elements(half), self.elements(half), band, end)
            }
            4 => {
                let block = self.below(log as usize + 1) as u32;
                Weight::Text(self.elements(log as usize), self.end(block))
            }
            _ => {
                let mut places: Vec<usize> = (0..3).map(|_| self.below(1 << log)).collect();
                places.sort_unstable();
                places.dedup();
                Weight::Sparse(log, places.into_iter().map(|i| (i, self.element())).collect())
            }
        }
    }

    /// Tensors of one group: some share factors, some have a factor that spans two axes.
    fn tensors(&mut self, axes: &[u32]) -> Vec<Vec<Weight>> {
        let joint = self.below(3) == 0;
        let axes: Vec<u32> = match axes {
            [a, b, rest @ ..] if joint => [&[a + b], rest].concat(),
            other => other.to_vec(),
        };
        let kinds: Vec<usize> = axes.iter().map(|_| self.below(6)).collect();
        let fresh = |own: &mut Self| -> Vec<Weight> {
            axes.iter()
                .zip(&kinds)
                .map(|(log, kind)| own.weight(*log, *kind))
                .collect()
        };
        let first = fresh(self);
        let mut list = vec![first.clone()];
        for _ in 0..self.below(9) {
            let mut tensor = fresh(self);
            for (own, shared) in tensor.iter_mut().zip(&first) {
                if self.below(2) == 0 {
                    *own = shared.clone();
                }
            }
            list.push(tensor);
        }
        list
    }

    fn batch(&mut self, shape: &Shape, columns: &[Columns]) -> Batch {
        let mut groups = Vec::new();
        for &part in shape.parts() {
            for _ in 0..self.below(5) {
                let own = columns[part.index()].len();
                let terms = (0..1 + self.below(4)).map(|_| (self.below(own), self.element()));
                let terms = terms.collect();
                groups.push(Group::new_sum(part, self.tensors(&shape.axes(part)), terms));
            }
        }
        let value = groups.iter().map(|g| dot(&g.table(), &combination(g, columns))).sum();
        Batch {
            groups,
            value,
            said: Vec::new(),
        }
    }
}

fn combination(group: &Group, columns: &[Columns]) -> Vec<K> {
    let own = &columns[group.part.index()];
    let row = |row: usize| group.columns.iter().map(|(c, k)| *k * own[*c][row]).sum();
    (0..own[0].len()).map(row).collect()
}

fn dot(a: &[K], b: &[K]) -> K {
    a.iter().zip(b).map(|(a, b)| *a * *b).sum()
}

/// The split sends what whole tables send, of claims of any form and cut of the parts.
#[test]
fn the_messages_are_those_of_whole_tables() {
    for seed in 0..12 {
        let mut random = Random(SplitMix(seed));
        let shape = shape([1, 4, 16][seed as usize % 3]);
        let mut columns: Vec<Columns> = Vec::new();
        for &part in shape.parts() {
            columns.resize_with(columns.len().max(part.index() + 1), Vec::new);
            let mut column = || -> Vec<BaseField> {
                // Cells of two bytes, and any elements.
                let value = |_| BaseField::from(random.0.below(1 << [16, 31][seed as usize % 2]) as u32);
                (0..1 << shape.log_rows(part)).map(value).collect()
            };
            columns[part.index()] = (0..5).map(|_| column()).collect();
        }
        let batch = random.batch(&shape, &columns);
        let instances: Vec<Instance> = shape
            .parts()
            .iter()
            .map(|part| Instance {
                pairs: batch.of(*part).map(|g| (g.table(), combination(g, &columns))).collect(),
                variables: shape.log_rows(*part) as usize,
            })
            .collect();
        let whole = sumcheck::prove(&Vectors, "claims", batch.value, instances, &mut Transcript::new("test")).unwrap();
        for device in [&Vectors as &dyn Device, &Scalar] {
            let held = device.columns(of_elements(&columns)).unwrap();
            let split = prove(
                &batch,
                batch.value,
                &shape,
                device,
                &*held,
                &mut Transcript::new("test"),
            )
            .unwrap();
            assert_eq!(split.proof, whole.proof, "seed {seed}");
            // Only the last challenge is drawn after a proof of work.
            let last = whole.point.len() - 1;
            assert_eq!(split.point[..last], whole.point[..last]);
            assert!(holds_at_its_end(&batch, &shape, &columns, &split), "seed {seed}");
        }
    }
}

/// What the rounds end in is what the coefficients of the columns make of their evaluations.
fn holds_at_its_end(batch: &Batch, shape: &Shape, columns: &[Columns], proved: &Proved) -> bool {
    let end = verify(
        "claims",
        batch.value,
        proved.point.len(),
        Unread::of(&proved.proof),
        Some((CLAIMS_WORK, Unread::of(&proved.nonce.expect("work")))),
        &mut Transcript::new("test"),
    )
    .unwrap();
    let of_part = |part: &Part| {
        let point = suffix(&end.point, shape.log_rows(*part));
        let columns = &columns[part.index()];
        let terms = batch.coefficients(*part, point).into_iter();
        let sum: K = terms
            .map(|(column, k)| k * eval_base(columns[column].as_slice().into(), point))
            .sum();
        instance_scale(end.point.len(), point.len()) * sum
    };
    shape.parts().iter().map(of_part).sum::<K>() == end.value
}

/// Every boundary gives the same sums: the one that is chosen is a matter of time alone.
#[test]
fn sums_of_inner_factors_are_those_of_the_definition() {
    let mut random = Random(SplitMix(77));
    let axes = [2, 3, 4];
    let column: Vec<BaseField> = (0..1 << 9).map(|i| BaseField::from(i * i + 3)).collect();
    let columns = vec![column.clone()];
    let mut small = vec![Vec::new(); Part::FF.index()];
    small.push(vec![Column::from(column)]);
    let small = Vectors.columns(small).unwrap();
    for _ in 0..40 {
        let tensors = random.tensors(&axes);
        let group = Group::new_sum(Part::FF, tensors, vec![(0, random.element())]);
        let expected = dot(
            &group.table(),
            &combination(
                &group,
                &vec![Vec::new(); Part::FF.index()]
                    .into_iter()
                    .chain([columns.clone()])
                    .collect::<Vec<_>>(),
            ),
        );
        for outer in 0..=9 {
            if group.weights.iter().any(|t| cut(t, outer).is_none()) {
                continue;
            }
            let split = SplitGroup::new(&group, outer);
            let sums = split.sums(&*small, outer, 9 - outer).unwrap();
            let total = split
                .factors
                .iter()
                .zip(&sums)
                .map(|(f, d)| dot(&sum_of(&f.outer, outer), d));
            assert_eq!(total.sum::<K>(), expected, "outer {outer}: {:?}", group.weights);
        }
    }
}

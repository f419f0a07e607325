//! Quantised tensors: blocks of small integers with their scales, as ggml defines them.
//!
//! All sums and products are those of ggml's own conversion to float, in the same order, rounded to f32 one by one.

use std::fmt;

use half::f16;

/// A type whose values are stored in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

/// Values of a block of the simple types, and of the types with scales of scales.
const SIMPLE: usize = 32;
const SUPER: usize = 256;

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        })
    }
}

impl Blocks {
    /// Values of a block.
    pub const fn values(self) -> usize {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => SIMPLE,
            Self::Q4K | Self::Q5K | Self::Q6K => SUPER,
        }
    }

    /// Bytes of a block.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Q4_0 => 2 + 16,
            Self::Q4_1 => 4 + 16,
            Self::Q5_0 => 2 + 4 + 16,
            Self::Q5_1 => 4 + 4 + 16,
            Self::Q8_0 => 2 + 32,
            Self::Q4K => 4 + 12 + 128,
            Self::Q5K => 4 + 12 + 32 + 128,
            Self::Q6K => 128 + 64 + 16 + 2,
        }
    }

    /// Reads the values from index `first` on; a block that is only partly asked for is decoded whole.
    ///
    /// # Panics
    /// If `bytes` do not hold them.
    pub fn read(self, bytes: &[u8], first: usize, mut out: &mut [f32]) {
        let (values, size) = (self.values(), self.bytes());
        let mut scratch = [0.0; SUPER];
        let mut blocks = bytes[first / values * size..].chunks_exact(size);
        let mut skip = first % values;
        while !out.is_empty() {
            let block = blocks.next().unwrap_or_else(|| panic!("a tensor of {self} ends early"));
            let (piece, rest) = out.split_at_mut(out.len().min(values - skip));
            if piece.len() == values {
                self.decode(block, piece);
            } else {
                self.decode(block, &mut scratch[..values]);
                piece.copy_from_slice(&scratch[skip..][..piece.len()]);
            }
            (out, skip) = (rest, 0);
        }
    }

    fn decode(self, block: &[u8], out: &mut [f32]) {
        match self {
            Self::Q4_0 => {
                let d = half(block, 0);
                nibbles(&block[2..], [0; 4], out, |q| (q - 8.0) * d);
            }
            Self::Q4_1 => {
                let (d, m) = (half(block, 0), half(block, 2));
                nibbles(&block[4..], [0; 4], out, |q| q * d + m);
            }
            Self::Q5_0 => {
                let d = half(block, 0);
                nibbles(&block[6..], four(block, 2), out, |q| (q - 16.0) * d);
            }
            Self::Q5_1 => {
                let (d, m) = (half(block, 0), half(block, 2));
                nibbles(&block[8..], four(block, 4), out, |q| q * d + m);
            }
            Self::Q8_0 => {
                let d = half(block, 0);
                for (out, q) in out.iter_mut().zip(&block[2..]) {
                    *out = f32::from(*q as i8) * d;
                }
            }
            Self::Q4K => super_block(block, None, &block[16..], out),
            Self::Q5K => super_block(block, Some(&block[16..48]), &block[48..], out),
            Self::Q6K => six_bits(block, out),
        }
    }
}

/// The half-precision number at a byte of a block.
fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn four(block: &[u8], at: usize) -> [u8; 4] {
    std::array::from_fn(|i| block[at + i])
}

/// The 32 integers of a simple block: low halves of 16 bytes, then high ones, with a fifth bit each from `fifth`.
fn nibbles(bytes: &[u8], fifth: [u8; 4], out: &mut [f32], value: impl Fn(f32) -> f32) {
    let fifth = u32::from_le_bytes(fifth);
    let (low, high) = out.split_at_mut(SIMPLE / 2);
    for (i, ((low, high), byte)) in low.iter_mut().zip(high).zip(bytes).enumerate() {
        let bit = |at: usize| (fifth >> at & 1) as u8 * 16;
        *low = value(f32::from(byte & 15 | bit(i)));
        *high = value(f32::from(byte >> 4 | bit(i + SIMPLE / 2)));
    }
}

/// Scale and minimum, six bits each, of a sub-block of 32 values: those of the last four sub-blocks have their upper
/// bits in those of the first four.
fn scale_and_min(packed: &[u8], sub: usize) -> (f32, f32) {
    let (scale, min) = match sub {
        0..4 => (packed[sub] & 63, packed[sub + 4] & 63),
        _ => (
            packed[sub + 4] & 15 | packed[sub - 4] >> 6 << 4,
            packed[sub + 4] >> 4 | packed[sub] >> 6 << 4,
        ),
    };
    (f32::from(scale), f32::from(min))
}

/// Q4_K and Q5_K: 256 values in eight sub-blocks. 32 bytes hold the low halves of a sub-block and the high halves of the
/// next; `fifth` has, for each of 32 values, the fifth bits of all sub-blocks.
fn super_block(block: &[u8], fifth: Option<&[u8]>, bytes: &[u8], out: &mut [f32]) {
    let (d, min) = (half(block, 0), half(block, 2));
    for (sub, out) in out.chunks_exact_mut(SIMPLE).enumerate() {
        let (scale, offset) = scale_and_min(&block[4..16], sub);
        let (scale, offset) = (d * scale, min * offset);
        let bytes = &bytes[sub / 2 * SIMPLE..][..SIMPLE];
        for (i, (out, byte)) in out.iter_mut().zip(bytes).enumerate() {
            let low = if sub % 2 == 0 { byte & 15 } else { byte >> 4 };
            let bit = fifth.map_or(0, |fifth| fifth[i] >> sub & 1) * 16;
            *out = scale * f32::from(low | bit) - offset;
        }
    }
}

/// Q6_K: two halves of 128 values, each with 64 bytes of low halves and 32 of upper pairs of bits, and a signed scale for
/// every 16 values.
fn six_bits(block: &[u8], out: &mut [f32]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = half(block, 208);
    for (i, out) in out.iter_mut().enumerate() {
        let (side, quarter, x) = (i / 128, i % 128 / 32, i % 32);
        let low = low[64 * side + 32 * (quarter % 2) + x] >> (quarter / 2 * 4) & 15;
        let high = high[32 * side + x] >> (2 * quarter) & 3;
        let q = f32::from(low | high << 4) - 32.0;
        *out = d * f32::from(scales[i / 16] as i8) * q;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Blocks; 8] = [
        Blocks::Q4_0,
        Blocks::Q4_1,
        Blocks::Q5_0,
        Blocks::Q5_1,
        Blocks::Q8_0,
        Blocks::Q4K,
        Blocks::Q5K,
        Blocks::Q6K,
    ];

    fn decoded(kind: Blocks, bytes: &[u8]) -> Vec<f32> {
        let mut out = vec![0.0; bytes.len() / kind.bytes() * kind.values()];
        kind.read(bytes, 0, &mut out);
        out
    }

    fn f16_bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect()
    }

    /// Blocks worked out by hand, each with two values that have nothing in common but the scale.
    #[test]
    fn blocks_worked_out_by_hand() {
        // d = 0.5; byte 3 is 0xe1: value 3 is 1, value 19 is 14.
        let mut nibbles = [0x88; 16];
        nibbles[3] = 0xe1;
        let q4_0 = decoded(Blocks::Q4_0, &[f16_bytes(&[0.5]), nibbles.to_vec()].concat());
        assert_eq!((q4_0[0], q4_0[3], q4_0[19], q4_0[31]), (0.0, -3.5, 3.0, 0.0));
        let q4_1 = decoded(Blocks::Q4_1, &[f16_bytes(&[0.5, -1.0]), nibbles.to_vec()].concat());
        assert_eq!((q4_1[0], q4_1[3], q4_1[19]), (3.0, -0.5, 6.0));
        // Fifth bits of values 3 and 31: bit 3 of byte 0 and bit 7 of byte 3.
        let fifth = vec![8, 0, 0, 0x80];
        let q5_0 = decoded(
            Blocks::Q5_0,
            &[f16_bytes(&[0.5]), fifth.clone(), nibbles.to_vec()].concat(),
        );
        assert_eq!((q5_0[0], q5_0[3], q5_0[19], q5_0[31]), (-4.0, 0.5, -1.0, 4.0));
        let q5_1 = decoded(
            Blocks::Q5_1,
            &[f16_bytes(&[0.5, -1.0]), fifth, nibbles.to_vec()].concat(),
        );
        assert_eq!((q5_1[0], q5_1[3], q5_1[19], q5_1[31]), (3.0, 7.5, 6.0, 11.0));
        let signed: Vec<u8> = (0..32u8).map(|i| i.wrapping_sub(16)).collect();
        let q8_0 = decoded(Blocks::Q8_0, &[f16_bytes(&[0.25]), signed].concat());
        assert_eq!((q8_0[0], q8_0[15], q8_0[31]), (-4.0, -0.25, 3.75));
    }

    /// Super-blocks worked out by hand: sub-block 1 has scale 3 and minimum 2, sub-block 6 has scale 0b100101 and minimum
    /// 0b010011, whose upper bits are in bytes 2 and 6 of the scales.
    #[test]
    fn super_blocks_worked_out_by_hand() {
        let mut scales = [0u8; 12];
        (scales[1], scales[5]) = (3, 2);
        (scales[10], scales[2], scales[6]) = (0b0011_0101, 0b10 << 6, 0b01 << 6);
        let mut low = [0u8; 128];
        // Value 32 + 5 is the high half of byte 5, value 6 * 32 + 7 the low half of byte 3 * 32 + 7.
        (low[5], low[103]) = (0x90, 0x0b);
        let head = [f16_bytes(&[0.5, 0.25]), scales.to_vec()].concat();
        let q4 = decoded(Blocks::Q4K, &[head.clone(), low.to_vec()].concat());
        assert_eq!((q4[32], q4[37]), (-0.5, 1.5 * 9.0 - 0.5));
        assert_eq!((q4[192], q4[199]), (-4.75, 18.5 * 11.0 - 4.75));
        assert_eq!((q4[0], q4[5]), (0.0, 0.0));
        // Fifth bits: bit 1 of byte 5 is that of value 37, bit 6 of byte 7 that of value 199.
        let mut fifth = [0u8; 32];
        (fifth[5], fifth[7]) = (1 << 1, 1 << 6);
        let q5 = decoded(Blocks::Q5K, &[head, fifth.to_vec(), low.to_vec()].concat());
        assert_eq!((q5[37], q5[199]), (1.5 * 25.0 - 0.5, 18.5 * 27.0 - 4.75));
        assert_eq!((q5[32], q5[192]), (-0.5, -4.75));

        // Value 128 + 64 + 9 of Q6_K: the high half of byte 64 + 9, bits 4 and 5 of byte 32 + 9, scale 12.
        let (mut low, mut high, mut scales) = ([0u8; 128], [0u8; 64], [0u8; 16]);
        (low[73], high[41], scales[12]) = (0x70, 0b10 << 4, -3i8 as u8);
        // Value 32 + 17: the low half of byte 32 + 17, bits 2 and 3 of byte 17, scale 3.
        (low[49], high[17], scales[3]) = (0x0f, 0b11 << 2, 5);
        let block = [low.to_vec(), high.to_vec(), scales.to_vec(), f16_bytes(&[0.5])].concat();
        let q6 = decoded(Blocks::Q6K, &block);
        assert_eq!((q6[201], q6[49]), (0.5 * -3.0 * 7.0, 0.5 * 5.0 * 31.0));
        assert_eq!((q6[200], q6[48], q6[0]), (48.0, -80.0, 0.0));
    }

    /// The bits of a block as one number, the least significant bit of the first byte first.
    fn bits(bytes: &[u8], first: usize, n: usize) -> u32 {
        (0..n)
            .map(|i| u32::from(bytes[(first + i) / 8] >> ((first + i) % 8) & 1) << i)
            .sum()
    }

    /// The definition, value by value: where the bits of value `i` are, counted in bits from the start of the block.
    fn reference(kind: Blocks, b: &[u8], i: usize) -> f32 {
        let number = |byte: usize| f16::from_bits(bits(b, 8 * byte, 16) as u16).to_f32();
        let nibble = |byte: usize, upper: usize| bits(b, 8 * byte + 4 * upper, 4);
        let bit = |byte: usize, at: usize| bits(b, 8 * byte + at, 1);
        let scaled = |q: u32, zero: f32| (q as f32 - zero) * number(0);
        // Scales and minima of sub-block s as the 6-bit numbers that a packer would have split.
        let six = |s: usize, min: usize| match s {
            0..4 => bits(b, 8 * (4 + 4 * min + s), 6),
            _ => nibble(4 + 4 + s, min) + 16 * bits(b, 8 * (4 + 4 * min + s - 4) + 6, 2),
        };
        let sub = |q: u32| {
            let s = i / 32;
            number(0) * six(s, 0) as f32 * q as f32 - number(2) * six(s, 1) as f32
        };
        match kind {
            Blocks::Q4_0 => scaled(nibble(2 + i % 16, i / 16), 8.0),
            Blocks::Q4_1 => scaled(nibble(4 + i % 16, i / 16), 0.0) + number(2),
            Blocks::Q5_0 => scaled(nibble(6 + i % 16, i / 16) + 16 * bit(2, i), 16.0),
            Blocks::Q5_1 => scaled(nibble(8 + i % 16, i / 16) + 16 * bit(4, i), 0.0) + number(2),
            Blocks::Q8_0 => bits(b, 8 * (2 + i), 8) as u8 as i8 as f32 * number(0),
            Blocks::Q4K => sub(nibble(16 + i / 64 * 32 + i % 32, i / 32 % 2)),
            Blocks::Q5K => sub(nibble(48 + i / 64 * 32 + i % 32, i / 32 % 2) + 16 * bit(16 + i % 32, i / 32)),
            Blocks::Q6K => {
                let low = nibble(i / 128 * 64 + i % 64, i % 128 / 64);
                let high = bits(b, 8 * (128 + i / 128 * 32 + i % 32) + i % 128 / 32 * 2, 2);
                let scale = bits(b, 8 * (192 + i / 16), 8) as u8 as i8;
                number(208) * f32::from(scale) * ((low + 16 * high) as f32 - 32.0)
            }
        }
    }

    proptest! {
        #[test]
        fn every_value_is_that_of_the_definition(kind in 0..ALL.len(), random in prop::collection::vec(any::<u8>(), 210)) {
            let kind = ALL[kind];
            let block = &random[..kind.bytes()];
            for (i, got) in decoded(kind, block).into_iter().enumerate() {
                let expected = reference(kind, block, i);
                prop_assert!(
                    got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
                    "{kind} {i}: {got} {expected}"
                );
            }
        }

        /// A piece from anywhere is that piece of the whole.
        #[test]
        fn pieces_are_those_of_the_whole(
            kind in 0..ALL.len(), seed in any::<u64>(), first in 0..700usize, len in 0..700usize,
        ) {
            let kind = ALL[kind];
            let mut rng = tessera_support::random::SplitMix(seed);
            let mut bytes: Vec<u8> = (0..kind.bytes() * 768 / kind.values()).map(|_| rng.next_u64() as u8).collect();
            // No scale is infinite.
            bytes.iter_mut().for_each(|b| *b &= 0xbb);
            let whole = decoded(kind, &bytes);
            let mut piece = vec![0.0; len.min(whole.len() - first)];
            kind.read(&bytes, first, &mut piece);
            prop_assert_eq!(&piece[..], &whole[first..][..piece.len()]);
        }
    }
}

//! Sliding windows: layers whose queries see the last keys alone (docs/protocol.md, section 16.15).

use std::ops::{Range, RangeInclusive};

use serde::{Deserialize, Serialize};

use super::{range, ModelConfig, ModelError, MAX_LAYERS};

/// Words of a set of layers.
const WORDS: usize = MAX_LAYERS / 64;

/// The window of a model, and the layers that have it. All other layers see every token up to the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Windows {
    /// The most keys that a query of such a layer sees: itself, and the `keys - 1` before it.
    pub keys: u32,
    /// The layers, layer `l` as bit `l mod 64` of word `l / 64`.
    layers: [u64; WORDS],
}

impl Windows {
    /// Windows that a key may have, in keys: sums over the keys of a query have the bounds of a context of as many rows.
    pub const KEYS: RangeInclusive<u32> = 1..=1 << 13;

    /// A window of so many keys in these layers. Layers from [`MAX_LAYERS`] on are left out, because no key has so many.
    pub fn new(keys: u32, layers: impl IntoIterator<Item = usize>) -> Self {
        let mut set = [0; WORDS];
        for layer in layers {
            if let Some(word) = set.get_mut(layer / 64) {
                *word |= 1 << (layer % 64);
            }
        }
        Self { keys, layers: set }
    }

    /// Whether a layer has the window.
    pub fn has(&self, layer: usize) -> bool {
        self.layers
            .get(layer / 64)
            .is_some_and(|word| (word >> (layer % 64)) & 1 == 1)
    }

    /// The layers that have the window, ascending.
    pub fn layers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..MAX_LAYERS).filter(|layer| self.has(*layer))
    }

    /// The window in some of the layers alone, counted from the first of these; `None` if none of them has it.
    #[must_use]
    pub fn within(&self, layers: Range<usize>) -> Option<Self> {
        let own = self.layers().filter(|layer| layers.contains(layer));
        let own = Self::new(self.keys, own.map(|layer| layer - layers.start));
        own.layers.iter().any(|word| *word != 0).then_some(own)
    }

    /// Checks that the window is in its range, that it is shorter than the context, and that there are layers that have it, all of them
    /// layers of the model: a key has one way to say what it says.
    pub(super) fn check(&self, config: &ModelConfig) -> Result<(), ModelError> {
        let most = (config.context as u64)
            .saturating_sub(1)
            .min((*Self::KEYS.end()).into());
        range("sliding_window", self.keys.into(), (*Self::KEYS.start()).into(), most)?;
        let last = self.layers().last().map_or(0, |last| last as u64 + 1);
        range("number of the last layer with a window", last, 1, config.layers as u64)
    }
}

impl ModelConfig {
    /// The window of the model, where some of its layers have one.
    pub const fn windows(&self) -> Option<&Windows> {
        self.blocks.windows()
    }

    /// The most keys that a query of a layer sees, if it has a window.
    pub fn window(&self, layer: usize) -> Option<usize> {
        let own = self.windows().filter(|windows| windows.has(layer))?;
        Some(own.keys as usize)
    }

    /// Whether every layer has a window.
    pub fn all_windowed(&self) -> bool {
        (0..self.layers).all(|layer| self.window(layer).is_some())
    }

    /// The keys that the query of a row sees in a layer, in a text of `rows` rows.
    pub fn visible(&self, layer: usize, row: usize, rows: usize) -> Range<usize> {
        if !self.is_causal() {
            return 0..rows;
        }
        let window = self.window(layer).unwrap_or(usize::MAX);
        (row + 1).saturating_sub(window)..row + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{odd_config, Blocks, Mask};

    fn config(layers: usize, context: usize, windows: Windows) -> ModelConfig {
        ModelConfig {
            context,
            blocks: Blocks {
                mask: Mask::Windows(windows),
                ..Blocks::DECODER
            },
            ..odd_config(layers)
        }
    }

    #[test]
    fn windows_say_which_layers_have_them() {
        let own = Windows::new(7, [0, 63, 64, 1023, 1024]);
        assert_eq!(own.layers().collect::<Vec<_>>(), [0, 63, 64, 1023]);
        assert_eq!(own.within(63..65).map(|own| own.layers().collect()), Some(vec![0, 1]));
        assert_eq!(own.within(1..63), None);
        let model = config(3, 40, Windows::new(5, [1]));
        assert_eq!([0, 1, 2].map(|layer| model.window(layer)), [None, Some(5), None]);
        assert_eq!(model.visible(0, 9, 12), 0..10);
        assert_eq!(model.visible(1, 9, 12), 5..10);
        assert_eq!(model.visible(1, 3, 12), 0..4);
    }

    /// Windows of no keys, of more keys than sums have room for, and windows that no text fills are refused, as are layers that the model
    /// does not have, and windows of no layer.
    #[test]
    fn a_key_has_one_way_to_say_a_window() {
        for (keys, layers, context, fits) in [
            (1, vec![0], 64, true),
            (63, vec![0, 2], 64, true),
            (64, vec![0], 64, false),
            (0, vec![0], 64, false),
            (u32::MAX, vec![0], 64, false),
            (7, vec![3], 64, false),
            (7, vec![], 64, false),
            (1, vec![0], 1, false),
        ] {
            let own = config(3, context, Windows::new(keys, layers.clone()));
            assert_eq!(
                own.check().is_ok(),
                fits,
                "{keys} keys in {layers:?} of a context of {context}"
            );
        }
    }
}

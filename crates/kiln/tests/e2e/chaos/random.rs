//! Numbers that look random and are the same for the same seed.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Others draw from it as often as they like, and what comes next here stays the same.
    pub fn fork(&mut self) -> Random {
        Random(self.next())
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub fn pick<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.place(all.len())]
    }

    /// Takes one out of a pile, which starts again with `all` when nothing is left of it.
    pub fn draw<T: Copy>(&mut self, pile: &mut Vec<T>, all: &[T]) -> T {
        if pile.is_empty() {
            pile.extend(all);
        }
        pile.swap_remove(self.place(pile.len()))
    }

    fn place(&mut self, many: usize) -> usize {
        usize::try_from(self.between(0, many as u64 - 1)).expect("a short list")
    }
}

//! What tests have in common that deliver messages in every order that there is, or in many.

/// The order in which requests are delivered: at each step which one of those on their way, and of how many. (Answers arrive at once: a
/// coordinator that hears late is one whose next request is late.)
#[derive(Default)]
pub struct Schedule {
    pub choices: Vec<(usize, usize)>,
    step: usize,
    /// What goes beyond the choices is drawn, not the first.
    random: Option<u64>,
}

impl Schedule {
    /// One that is drawn as it goes.
    pub fn drawn(seed: u64) -> Self {
        Schedule { random: Some(seed), ..Schedule::default() }
    }

    pub fn choose(&mut self, among: usize) -> usize {
        if self.step == self.choices.len() {
            let choice = self.random.as_mut().map_or(0, |random| {
                // The multiplier and increment of Knuth's MMIX, whose high bits are the random ones.
                *random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*random >> 33) as usize % among
            });
            self.choices.push((choice, among));
        }
        self.step += 1;
        self.choices[self.step - 1].0
    }

    /// The next one: false if there is none.
    pub fn next(&mut self) -> bool {
        self.step = 0;
        while let Some((choice, among)) = self.choices.pop() {
            if choice + 1 < among {
                self.choices.push((choice + 1, among));
                return true;
            }
        }
        false
    }
}

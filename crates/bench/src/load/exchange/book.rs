//! The order book of the matching engine: a queue of orders for each price, and where the best
//! prices are. Price before time; each order is added and taken in constant time, and the best
//! prices move over as many empty prices as orders moved them.

use std::collections::VecDeque;

use super::message::{Message, Quote, Side};

/// Prices are from 1 to one below this.
pub(crate) const PRICES: u16 = 1024;

/// An order that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    volume: u16,
}

/// Orders that wait for a match.
#[derive(Debug)]
pub(crate) struct Book {
    /// By price: those who buy below, those who sell above the gap between the best prices.
    levels: Vec<VecDeque<Waiting>>,
    volumes: Vec<u32>,
    /// The highest price that a buyer would pay; 0: no buyer.
    bid: u16,
    /// The lowest price that a seller would take; [`PRICES`]: no seller.
    ask: u16,
}

impl Book {
    /// An empty book.
    pub(crate) fn new() -> Self {
        let prices = usize::from(PRICES) + 1;
        Self { levels: vec![VecDeque::new(); prices], volumes: vec![0; prices], bid: 0, ask: PRICES }
    }

    /// Takes an order in; the answer is a trade if any of it found a match, and what is left of it
    /// waits.
    pub(crate) fn take(&mut self, id: u32, side: Side, price: u16, volume: u16) -> Message {
        let price = price.clamp(1, PRICES - 1);
        let (mut left, mut at) = (volume, 0);
        while left > 0 {
            let best = match side {
                Side::Buy if self.ask <= price => self.ask,
                Side::Sell if self.bid >= price && self.bid > 0 => self.bid,
                _ => break,
            };
            at = best;
            left -= self.fill(best, left);
        }
        if left > 0 {
            self.wait(side, price, left);
        }
        if left < volume { Message::Trade { id, price: at, volume: volume - left } } else { Message::Accepted { id } }
    }

    /// Takes up to `wanted` from the orders that have waited longest at `price`.
    fn fill(&mut self, price: u16, wanted: u16) -> u16 {
        let level = usize::from(price);
        let mut taken = 0;
        while taken < wanted {
            let Some(first) = self.levels[level].front_mut() else { break };
            let part = first.volume.min(wanted - taken);
            first.volume -= part;
            taken += part;
            if first.volume == 0 {
                self.levels[level].pop_front();
            }
        }
        self.volumes[level] -= u32::from(taken);
        while self.bid > 0 && self.levels[usize::from(self.bid)].is_empty() {
            self.bid -= 1;
        }
        while self.ask < PRICES && self.levels[usize::from(self.ask)].is_empty() {
            self.ask += 1;
        }
        taken
    }

    fn wait(&mut self, side: Side, price: u16, volume: u16) {
        self.levels[usize::from(price)].push_back(Waiting { volume });
        self.volumes[usize::from(price)] += u32::from(volume);
        match side {
            Side::Buy => self.bid = self.bid.max(price),
            Side::Sell => self.ask = self.ask.min(price),
        }
    }

    /// The best prices.
    pub(crate) fn quote(&self) -> Quote {
        let volume = |price: u16| self.volumes[usize::from(price)];
        let ask = if self.ask == PRICES { 0 } else { self.ask };
        Quote {
            bid: self.bid,
            bid_volume: if self.bid == 0 { 0 } else { volume(self.bid) },
            ask,
            ask_volume: if ask == 0 { 0 } else { volume(ask) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Side::{Buy, Sell};

    #[test]
    fn the_best_price_comes_first_and_among_equals_the_oldest() {
        let mut book = Book::new();
        assert_eq!(book.take(1, Sell, 510, 5), Message::Accepted { id: 1 });
        assert_eq!(book.take(2, Sell, 505, 5), Message::Accepted { id: 2 });
        assert_eq!(book.take(3, Sell, 505, 5), Message::Accepted { id: 3 });
        assert_eq!(book.take(4, Buy, 500, 2), Message::Accepted { id: 4 });
        assert_eq!(book.quote(), Quote { bid: 500, bid_volume: 2, ask: 505, ask_volume: 10 });
        assert_eq!(book.take(5, Buy, 507, 7), Message::Trade { id: 5, price: 505, volume: 7 });
        assert_eq!(book.quote().ask_volume, 3);
        // Through two prices, and what is left waits and is the best bid now.
        assert_eq!(book.take(6, Buy, 510, 10), Message::Trade { id: 6, price: 510, volume: 8 });
        assert_eq!(book.quote(), Quote { bid: 510, bid_volume: 2, ask: 0, ask_volume: 0 });
        assert_eq!(book.take(7, Sell, 490, 9), Message::Trade { id: 7, price: 500, volume: 4 });
        assert_eq!(book.quote(), Quote { bid: 0, bid_volume: 0, ask: 490, ask_volume: 5 });
    }

    #[test]
    fn no_volume_is_lost_and_prices_never_cross() {
        let mut random = bench_record::statistics::random::Random::new(5);
        let (mut book, mut open) = (Book::new(), 0i64);
        for id in 0..20_000 {
            let side = if random.below(2) == 0 { Buy } else { Sell };
            let volume = 1 + random.below(100) as u16;
            match book.take(id, side, 450 + random.below(100) as u16, volume) {
                Message::Trade { volume: traded, .. } => open += i64::from(volume) - 2 * i64::from(traded),
                _ => open += i64::from(volume),
            }
            let quote = book.quote();
            assert!(quote.ask == 0 || quote.bid < quote.ask, "{quote:?}");
        }
        assert_eq!(book.volumes.iter().map(|volume| i64::from(*volume)).sum::<i64>(), open);
    }
}

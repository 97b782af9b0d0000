//! What the parts of the stock exchange say to each other: one byte for the kind, then numbers in
//! network order. Orders and their answers have 5 to 13 bytes, 9 on average, as in the study.

/// Which side of the market an order is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Buy,
    Sell,
}

/// The best prices, with what may be had for them; a price of 0 says that there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Quote {
    pub(crate) bid: u16,
    pub(crate) bid_volume: u32,
    pub(crate) ask: u16,
    pub(crate) ask_volume: u32,
}

/// How far a part is with its orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progressed {
    pub(crate) who: Who,
    /// Orders sent or received so far.
    pub(crate) orders: u32,
    /// Answers and quotes received or sent so far.
    pub(crate) answers: u32,
    /// Nanoseconds since this part began.
    pub(crate) after_ns: u64,
}

/// A part of the exchange that reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Gateway,
    Engine,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// 9 bytes.
    Order { side: Side, id: u32, price: u16, volume: u16 },
    /// 9 bytes: the order found another one at its price or a better one.
    Trade { id: u32, price: u16, volume: u16 },
    /// 5 bytes: the order waits in the book.
    Accepted { id: u32 },
    /// 13 bytes: the best prices have changed.
    Quote(Quote),
    /// 18 bytes, once for each sample: for the statistics.
    Progressed(Progressed),
    /// 1 byte: there is nothing behind it.
    End,
}

impl Message {
    /// Writes it into `out`, which is emptied before.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        match *self {
            Self::Order { side, id, price, volume } => {
                out.push(if side == Side::Buy { b'B' } else { b'S' });
                out.extend(id.to_be_bytes());
                out.extend(price.to_be_bytes());
                out.extend(volume.to_be_bytes());
            }
            Self::Trade { id, price, volume } => {
                out.push(b'T');
                out.extend(id.to_be_bytes());
                out.extend(price.to_be_bytes());
                out.extend(volume.to_be_bytes());
            }
            Self::Accepted { id } => {
                out.push(b'A');
                out.extend(id.to_be_bytes());
            }
            Self::Quote(quote) => {
                out.push(b'Q');
                out.extend(quote.bid.to_be_bytes());
                out.extend(quote.bid_volume.to_be_bytes());
                out.extend(quote.ask.to_be_bytes());
                out.extend(quote.ask_volume.to_be_bytes());
            }
            Self::Progressed(progressed) => {
                out.push(b'P');
                out.push(if progressed.who == Who::Gateway { b'G' } else { b'E' });
                out.extend(progressed.orders.to_be_bytes());
                out.extend(progressed.answers.to_be_bytes());
                out.extend(progressed.after_ns.to_be_bytes());
            }
            Self::End => out.push(b'X'),
        }
    }

    /// Reads it; none where the bytes are no message.
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let (kind, rest) = body.split_first()?;
        let two = |at: usize| rest.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes);
        let four = |at: usize| rest.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let eight = |at: usize| rest.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
        let (message, length) = match kind {
            b'B' | b'S' => {
                let side = if *kind == b'B' { Side::Buy } else { Side::Sell };
                (Self::Order { side, id: four(0)?, price: two(4)?, volume: two(6)? }, 8)
            }
            b'T' => (Self::Trade { id: four(0)?, price: two(4)?, volume: two(6)? }, 8),
            b'A' => (Self::Accepted { id: four(0)? }, 4),
            b'Q' => {
                let (bid, bid_volume, ask, ask_volume) = (two(0)?, four(2)?, two(6)?, four(8)?);
                (Self::Quote(Quote { bid, bid_volume, ask, ask_volume }), 12)
            }
            b'P' => {
                let who = match rest.first()? {
                    b'G' => Who::Gateway,
                    b'E' => Who::Engine,
                    _ => return None,
                };
                let (orders, answers, after_ns) = (four(1)?, four(5)?, eight(9)?);
                (Self::Progressed(Progressed { who, orders, answers, after_ns }), 17)
            }
            b'X' => (Self::End, 0),
            _ => return None,
        };
        (rest.len() == length).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_no_part_of_them_is_one() {
        let all = [
            (Message::Order { side: Side::Buy, id: 1 << 30, price: 700, volume: 9 }, 9),
            (Message::Order { side: Side::Sell, id: 7, price: 1, volume: 65535 }, 9),
            (Message::Trade { id: 7, price: 500, volume: 3 }, 9),
            (Message::Accepted { id: 99 }, 5),
            (Message::Quote(Quote { bid: 499, bid_volume: 1 << 20, ask: 501, ask_volume: 2 }), 13),
            (Message::Progressed(Progressed { who: Who::Engine, orders: 5, answers: 6, after_ns: 7 }), 18),
            (Message::End, 1),
        ];
        let mut body = Vec::new();
        for (message, length) in all {
            message.encode(&mut body);
            assert_eq!((Message::decode(&body), body.len()), (Some(message), length));
            for cut in 0..body.len() {
                assert_eq!(Message::decode(&body[..cut]), None, "{message:?} cut at {cut}");
            }
            body.push(0);
            assert_eq!(Message::decode(&body), None, "{message:?} with a byte more");
        }
    }
}

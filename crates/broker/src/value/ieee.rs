//! Decimals of IEEE 754 in the encoding with binary integers, most significant byte first, as AMQP
//! 1.0 has them. They are stored and carried as they come, and read only to be shown.

use crate::value::Value;

/// The parts of a number: `coefficient` × ten to the power of `exponent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    is_negative: bool,
    coefficient: u128,
    exponent: i32,
}

/// What distinguishes the three widths.
struct Format {
    bits: u32,
    exponent_bits: u32,
    bias: i32,
    digits: u32,
}

/// The nearest value of a type that AMQP 0-9-1 has: its decimal, or a text if that can't hold it.
pub(super) fn nearest(bytes: &[u8]) -> Value {
    match parts(bytes) {
        Ok(Parts { is_negative: false, coefficient, exponent: exponent @ -255..=0 })
            if u32::try_from(coefficient).is_ok() =>
        {
            Value::Decimal { scale: exponent.unsigned_abs() as u8, value: coefficient as u32 }
        }
        Ok(Parts { is_negative, coefficient, exponent }) => {
            let sign = if is_negative { "-" } else { "" };
            let power = if exponent == 0 { String::new() } else { format!("E{exponent}") };
            Value::Text(format!("{sign}{coefficient}{power}"))
        }
        Err(special) => Value::Text(special.to_owned()),
    }
}

/// The parts of a number, or the name of what is none.
fn parts(bytes: &[u8]) -> Result<Parts, &'static str> {
    let format = match bytes.len() {
        4 => Format { bits: 32, exponent_bits: 8, bias: 101, digits: 7 },
        8 => Format { bits: 64, exponent_bits: 10, bias: 398, digits: 16 },
        _ => Format { bits: 128, exponent_bits: 14, bias: 6176, digits: 34 },
    };
    let number = bytes.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    // The leftmost bit is the sign.
    let is_negative = number >> (format.bits - 1) != 0;
    let rest = number << (128 - format.bits) << 1;
    match rest >> 123 {
        0b11110 => return Err(if is_negative { "-Infinity" } else { "Infinity" }),
        0b11111 => return Err("NaN"),
        _ => {}
    }
    // After two set bits the coefficient begins with the bits 100, which are not written.
    let is_large = rest >> 126 == 0b11;
    let (rest, implied) = if is_large { (rest << 2, 0b100) } else { (rest, 0) };
    let left = format.bits - 1 - format.exponent_bits - if is_large { 2 } else { 0 };
    let exponent = (rest >> (128 - format.exponent_bits)) as i32 - format.bias;
    let coefficient = implied << left | rest << format.exponent_bits >> (128 - left);
    // A coefficient of too many digits is zero.
    let coefficient = if coefficient < 10u128.pow(format.digits) { coefficient } else { 0 };
    Ok(Parts { is_negative, coefficient, exponent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers_of_every_width() {
        let text = |text: &str| Value::Text(text.to_owned());
        for (bytes, expected) in [
            // 7.50 = 750E-2: biased exponents 99, 396 and 6174.
            (vec![0x31, 0x80, 0x02, 0xee], Value::Decimal { scale: 2, value: 750 }),
            (vec![0x31, 0x80, 0, 0, 0, 0, 0x02, 0xee], Value::Decimal { scale: 2, value: 750 }),
            ([&[0x30, 0x3c][..], &[0; 12], &[0x02, 0xee]].concat(), Value::Decimal { scale: 2, value: 750 }),
            (vec![0xb2, 0x80, 0, 1], text("-1")),
            (vec![0x33, 0x80, 0, 1], text("1E2")),
            // 9999999E-101 and 9999999E90 are written with the implied bits.
            (vec![0x60, 0x18, 0x96, 0x7f], Value::Decimal { scale: 101, value: 9_999_999 }),
            (vec![0x77, 0xf8, 0x96, 0x7f], text("9999999E90")),
            // One more than the greatest coefficient.
            (vec![0x77, 0xf8, 0x96, 0x80], text("0E90")),
            (vec![0x5f, 0xe0, 0, 0, 0, 0, 0, 0x01], text("1E369")),
            (vec![0x78, 0, 0, 0], text("Infinity")),
            (vec![0xf8, 0, 0, 0], text("-Infinity")),
            (vec![0x7c, 0, 0, 0], text("NaN")),
            ([&[0x7c][..], &[0; 15]].concat(), text("NaN")),
            (vec![0; 4], Value::Decimal { scale: 101, value: 0 }),
        ] {
            assert_eq!(nearest(&bytes), expected, "{bytes:02x?}");
        }
    }
}

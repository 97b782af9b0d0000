//! Numbers with units, as each broker reads them.

/// A size where `k` is 1000 unless it is `KiB` or `Ki`: RabbitMQ's memory and disk limits.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 13] = [
        ("", 1),
        ("b", 1),
        ("k", 1000),
        ("kb", 1000),
        ("ki", 1 << 10),
        ("kib", 1 << 10),
        ("m", 1_000_000),
        ("mb", 1_000_000),
        ("mi", 1 << 20),
        ("mib", 1 << 20),
        ("g", 1_000_000_000),
        ("gb", 1_000_000_000),
        ("gi", 1 << 30),
    ];
    scaled(text, |unit| match unit {
        "gib" => Some(1 << 30),
        "ti" | "tib" => Some(1 << 40),
        "tb" => Some(1_000_000_000_000),
        other => UNITS.iter().find(|(name, _)| *name == other).map(|(_, scale)| *scale),
    })
}

/// A size where every unit is a power of 1024: Cuttlefish's byte sizes, Artemis and ActiveMQ.
pub(crate) fn binary(text: &str) -> Option<u64> {
    scaled(text, |unit| match unit {
        "" | "b" => Some(1),
        "k" | "kb" | "ki" | "kib" => Some(1 << 10),
        "m" | "mb" | "mi" | "mib" => Some(1 << 20),
        "g" | "gb" | "gi" | "gib" => Some(1 << 30),
        _ => None,
    })
}

fn scaled(text: &str, scale: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(scale(&unit.trim().to_ascii_lowercase())?)
}

/// A factor such as `0.4` in thousandths.
pub(crate) fn thousandths(text: &str) -> Option<u64> {
    let (whole, rest) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(rest) {
        return None;
    }
    let rest: String = rest.chars().chain("000".chars()).take(3).collect();
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(rest.parse().ok()?)
}

/// Thousandths as per cent: `400` is `40 %`.
pub(crate) fn per_cent(thousandths: u64) -> String {
    match thousandths % 10 {
        0 => format!("{} %", thousandths / 10),
        tenth => format!("{}.{tenth} %", thousandths / 10),
    }
}

/// Thousandths as a factor: `1500` is `1.5`.
pub(crate) fn factor(thousandths: u64) -> String {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_broker_has_its_own_units() {
        for (text, decimal_bytes, binary_bytes) in [
            ("3GB", Some(3_000_000_000), Some(3 << 30)),
            ("256KB", Some(256_000), Some(262_144)),
            ("2GiB", Some(2 << 30), Some(2 << 30)),
            ("1Gi", Some(1 << 30), Some(1 << 30)),
            ("50MB", Some(50_000_000), Some(50 << 20)),
            ("4096", Some(4096), Some(4096)),
            ("64 mb", Some(64_000_000), Some(64 << 20)),
            ("1.5GB", None, None),
            ("1T", None, None),
            ("GB", None, None),
            ("99999999999999999999", None, None),
            ("9999999999999999GB", None, None),
        ] {
            assert_eq!((decimal(text), binary(text)), (decimal_bytes, binary_bytes), "{text}");
        }
    }

    #[test]
    fn factors_are_read_and_written() {
        for (text, expected, shown, share) in
            [("0.55", 550, "0.55", "55 %"), ("2.0", 2000, "2", "200 %"), ("0.125", 125, "0.125", "12.5 %")]
        {
            let read = thousandths(text).unwrap();
            assert_eq!((read, factor(read).as_str(), per_cent(read).as_str()), (expected, shown, share));
        }
        assert_eq!(["", ".", "x", "-1", "1,5"].map(thousandths), [None; 5]);
    }
}

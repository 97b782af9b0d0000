//! A network that an operator names: an address and how many of its bits count (RFC 4632).

use std::net::IpAddr;

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    address: IpAddr,
    bits: u32,
}

impl Subnet {
    /// Reads `10.0.0.0/8`, `fd00::/8`, or a single address.
    ///
    /// # Errors
    /// If the text is no network, with what would be one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no network; write it as 10.0.0.0/8, fd00::/8 or 10.0.0.1");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.trim().parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        let subnet = Self { address, bits };
        let first = subnet.first();
        match first == address {
            true => Ok(subnet),
            false => Err(format!("'{text}' has bits after the first {bits}; write {first}/{bits}")),
        }
    }

    /// Whether `address` is in the network. A mapped IPv4 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        Self { address: address.to_canonical(), bits: self.bits }.first() == self.address
            && address.to_canonical().is_ipv4() == self.address.is_ipv4()
    }

    /// The first address of the network of this one.
    fn first(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32u32.saturating_sub(self.bits)).unwrap_or(0);
                std::net::Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128u32.saturating_sub(self.bits)).unwrap_or(0);
                std::net::Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }
}

impl std::fmt::Display for Subnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_begin_like_it() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.0.0.1", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("fd00::/8", "fdab::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::1", "::1", true),
        ] {
            let subnet = Subnet::parse(network).unwrap();
            assert_eq!(subnet.contains(address.parse().unwrap()), expected, "{network} {address}");
        }
    }

    #[test]
    fn what_is_no_network_is_named_with_what_would_be() {
        for (text, expected) in [
            ("", "is no network"),
            ("10.0.0.0/33", "is no network"),
            ("fd00::/129", "is no network"),
            ("10.0.0.0/-1", "is no network"),
            ("example.org", "is no network"),
            ("10.0.0.1/8", "write 10.0.0.0/8"),
            ("fd00::1/64", "write fd00::/64"),
        ] {
            let error = Subnet::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

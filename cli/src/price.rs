//! Prices of gas and of bytes, and sums in ether.

use std::fmt;
use std::str::FromStr;

/// Wei in a gwei and in an ether.
const GWEI: u128 = 1_000_000_000;
const ETHER: u128 = GWEI * GWEI;
/// The most that a price may be, in gwei: a mistyped price is found, and no sum overflows.
const MOST: u128 = 1_000_000_000;

/// A price in wei, which people write in gwei.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price(pub u128);

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused =
            || format!("'{text}' is no price in gwei, such as 20 or 0.05 (at most {MOST}, and nine decimals)");
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |own: &str| !own.is_empty() && own.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > 9 {
            return Err(refused());
        }
        let whole: u128 = whole.parse().map_err(|_| refused())?;
        let decimals: u128 = format!("{decimals:0<9}").parse().map_err(|_| refused())?;
        match whole {
            0..MOST => Ok(Self(whole * GWEI + decimals)),
            MOST if decimals == 0 => Ok(Self(whole * GWEI)),
            _ => Err(refused()),
        }
    }
}

/// Wei, shown in ether.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ether(pub u128);

impl fmt::Display for Ether {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:018}", self.0 % ETHER);
        let shown = decimals.trim_end_matches('0');
        match shown {
            "" => write!(f, "{}", self.0 / ETHER),
            shown => write!(f, "{}.{shown}", self.0 / ETHER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_in_gwei_and_sums_shown_in_ether() {
        for (text, wei) in [
            ("20", 20 * GWEI),
            ("0.05", 50_000_000),
            ("0.000000001", 1),
            ("1000000000", ETHER),
        ] {
            assert_eq!(text.parse(), Ok(Price(wei)), "{text}");
        }
        for text in [
            "",
            ".5",
            "1.",
            "-1",
            "+1",
            "1e3",
            "0.0000000001",
            "1000000000.1",
            "1000000001",
            "1,5",
            " 1",
            "9".repeat(60).as_str(),
        ] {
            assert!(text.parse::<Price>().is_err(), "{text}");
        }
        for (wei, shown) in [
            (0, "0"),
            (ETHER, "1"),
            (1, "0.000000000000000001"),
            (12 * ETHER + ETHER / 2, "12.5"),
        ] {
            assert_eq!(Ether(wei).to_string(), shown);
        }
    }
}

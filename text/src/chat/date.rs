//! The day that a chat template is told.

use std::fmt;
use std::str::FromStr;

use crate::jinja::time;

/// Years that a date may have: four digits, and none before the epoch of processors.
const YEARS: std::ops::RangeInclusive<u64> = 1970..=9999;

/// The moment at which a prompt is made, in seconds since 1970, UTC. Some templates write the day into the prompt, so a prompt can be made
/// again only by who knows it.
///
/// ```
/// use tessera_text::chat::Date;
///
/// let date: Date = "2026-11-26".parse()?;
/// assert_eq!(date.to_string(), "2026-11-26");
/// assert_eq!("2026-11-26T17:00:05".parse::<Date>()?.seconds(), date.seconds() + 17 * 3600 + 5);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(u64);

impl Date {
    /// The present moment, by the clock of this machine. Not for wasm, which has no clock.
    pub fn now() -> Self {
        Self(time::now())
    }

    /// A moment, in seconds since 1970.
    pub const fn of_seconds(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Seconds since 1970.
    pub const fn seconds(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Date {
    /// The day; and the time of the day, unless it is midnight.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = if self.0.is_multiple_of(86_400) { "%F" } else { "%FT%T" };
        f.write_str(&time::strftime(format, self.0).unwrap_or_default())
    }
}

impl FromStr for Date {
    type Err = String;

    /// Reads `2026-11-26` or `2026-11-26T17:00:05`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no date: write it as 2026-11-26, or as 2026-11-26T17:00:05 (UTC)");
        let (day, clock) = match text.split_once('T') {
            Some((day, clock)) => (day, Some(clock)),
            None => (text, None),
        };
        let [year, month, day] = numbers(day, '-', [4, 2, 2]).ok_or_else(wrong)?;
        let [hour, minute, second] = match clock {
            Some(clock) => numbers(clock, ':', [2, 2, 2]).ok_or_else(wrong)?,
            None => [0; 3],
        };
        if !YEARS.contains(&year) || hour > 23 || minute > 59 || second > 59 {
            return Err(wrong());
        }
        let days = time::days(year, month, day).ok_or_else(wrong)?;
        Ok(Self(days * 86_400 + hour * 3600 + minute * 60 + second))
    }
}

/// Three numbers of so many digits.
fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut words = text.split(between);
    let mut numbers = [0; 3];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let word = words.next()?;
        let is = word.len() == digits && word.bytes().all(|c| c.is_ascii_digit());
        *number = word.parse().ok().filter(|_| is)?;
    }
    words.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_they_are_written_and_no_day_is_guessed() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400),
            ("2024-02-29", 1_709_164_800),
            ("2026-11-22", 1_795_305_600),
            ("2100-03-01", 4_107_542_400),
            ("2026-11-22T17:00:05", 1_795_305_600 + 61_205),
        ] {
            let date: Date = text.parse().unwrap();
            assert_eq!((date.seconds(), date.to_string().as_str()), (seconds, text));
        }
        for text in [
            "",
            "today",
            "2026-11",
            "2026-13-01",
            "2026-00-01",
            "2026-02-29",
            "2026-11-31",
            "2026-11-0",
            "26-11-22",
            "22-11-2026",
            "2026/11/22",
            "2026-11-22 17:00:05",
            "2026-11-22T17:00",
            "2026-11-22T24:00:00",
            "+026-11-22",
            "1969-12-31",
            "2026-11-22-01",
        ] {
            text.parse::<Date>().unwrap_err();
        }
    }
}

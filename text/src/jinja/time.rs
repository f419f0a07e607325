//! `strftime_now` of chat templates: the present day, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Seconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_secs())
}

/// The days of a text that are written as templates write them: `26 Nov 2026`, `November 26, 2026` or `2026-11-26`. Each is
/// given by the seconds from 1970 to its noon.
pub fn days_in(text: &str) -> Vec<u64> {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let number = |word: &str| word.parse::<u64>().ok();
    let name = |word: &str| {
        let is = |month: &&str| word.eq_ignore_ascii_case(month) || word.eq_ignore_ascii_case(&month[..3]);
        MONTHS.iter().position(is).map(|at| at as u64 + 1)
    };
    let day = |window: &[&str]| {
        let &[a, b, c] = window else { return None };
        let (year, month, day) = match (name(a), name(b)) {
            (None, Some(month)) => (number(c)?, month, number(a)?),
            (Some(month), None) => (number(c)?, month, number(b)?),
            _ => (number(a)?, number(b)?, number(c)?),
        };
        // The days of a year, without a calendar of its own: `date` has the one.
        let first = (year.checked_sub(1970)? * 146_097 / 400).saturating_sub(1);
        let found = (first..first + 370).find(|days| {
            let (y, m, d, _) = date(*days);
            (y, m, d) == (year, month, day)
        })?;
        Some(found * 86_400 + 43_200)
    };
    let is_year = |window: &&[&str]| {
        window
            .iter()
            .any(|word| word.len() == 4 && number(word).is_some_and(|y| y < 3000))
    };
    words.windows(3).filter(is_year).filter_map(day).collect()
}

/// Formats a time as Python does, in English; errors on directives that are not known here.
pub fn strftime(format: &str, seconds: u64) -> Result<String, String> {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day, day_of_year) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // 1970 began on a Thursday.
    let (weekday, month_name) = (DAYS[(days as usize + 3) % 7], MONTHS[month as usize - 1]);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let directive = chars.next();
        let unpadded = directive == Some('-');
        let directive = if unpadded { chars.next() } else { directive };
        let number = |n: u64, width: usize| match unpadded {
            true => n.to_string(),
            false => format!("{n:0width$}"),
        };
        let text = match directive {
            Some('Y') => number(year, 4),
            Some('y') => number(year % 100, 2),
            Some('m') => number(month, 2),
            Some('d') => number(day, 2),
            Some('e') => format!("{day:2}"),
            Some('j') => number(day_of_year, 3),
            Some('H') => number(hour, 2),
            Some('I') => number((hour + 11) % 12 + 1, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('A') => weekday.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('B') => month_name.to_owned(),
            Some('b') => month_name[..3].to_owned(),
            Some('F') => format!("{year:04}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('D' | 'x') => format!("{month:02}/{day:02}/{:02}", year % 100),
            Some('R') => format!("{hour:02}:{minute:02}"),
            Some('X') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('h') => month_name[..3].to_owned(),
            Some('n') => "\n".to_owned(),
            Some('t') => "\t".to_owned(),
            Some('w') => number((days + 4) % 7, 1),
            Some('u') => number((days + 3) % 7 + 1, 1),
            // The time has no zone in Python, either.
            Some('Z' | 'z') => String::new(),
            Some('%') => "%".to_owned(),
            other => return Err(format!("strftime_now: %{} is not supported", other.unwrap_or(' '))),
        };
        out.push_str(&text);
    }
    Ok(out)
}

/// Year, month, day and day of the year of a day after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64, u64) {
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    // 400 years always have the same number of days.
    let (mut year, mut left) = (1970 + 400 * (days / 146_097), days % 146_097);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let (day_of_year, mut month) = (left + 1, 1);
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1, day_of_year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_a_text_are_found_again() {
        for text in [
            "Today Date: 29 Feb 2024\n\n",
            "(February 29, 2024)",
            "on 2024-02-29, they",
            "x 29 February 2024",
        ] {
            assert_eq!(days_in(text), [1_709_164_800 + 43_200], "{text}");
        }
        for seconds in [0, 86_400 * 364, 951_782_400, 1_735_603_200, 4_107_542_400] {
            let text = strftime("%d %b %Y", seconds).unwrap();
            assert_eq!(days_in(&text), [seconds + 43_200], "{text}");
        }
        for text in ["30 Feb 2024", "2024", "1969-12-31", "99999-01-01", "one two three", ""] {
            assert!(days_in(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "Thursday 01 Jan 1970 001"),
            (951_782_400, "Tuesday 29 Feb 2000 060"),
            (1_709_164_800, "Thursday 29 Feb 2024 060"),
            (1_735_603_200, "Tuesday 31 Dec 2024 366"),
            (1_795_305_600, "Sunday 22 Nov 2026 326"),
            (4_107_542_400, "Monday 01 Mar 2100 060"),
        ] {
            assert_eq!(strftime("%A %d %b %Y %j", seconds).unwrap(), text);
        }
        assert_eq!(
            strftime("%-d.%-m.%y %I:%M %p 100%%", 1_709_164_800 + 46_800).unwrap(),
            "29.2.24 01:00 PM 100%"
        );
        assert_eq!(
            strftime("%D %R %h %w %u[%Z]", 1_709_164_800).unwrap(),
            "02/29/24 00:00 Feb 4 4[]"
        );
        assert!(strftime("%Q", 0).unwrap_err().contains("%Q"));
    }
}

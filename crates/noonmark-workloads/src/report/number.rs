//! Figures as people read them: three significant digits and a unit.
//!
//! These are for eyes only; files that programs read hold the figures as they are.

/// A count with its thousands set apart: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate or a large figure: `12.3`, `4.56k`, `1.23M`.
pub fn rate(per_s: f64) -> String {
    const UNITS: [&str; 4] = ["", "k", "M", "G"];
    if !per_s.is_finite() {
        return "-".into();
    }
    let mut value = per_s;
    let mut unit = 0;
    // 999.5 would print as "1000": it belongs to the next unit.
    while value.abs() >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 && (value - value.round()).abs() < 1e-9 {
        return format!("{value:.0}");
    }
    format!("{}{}", three_digits(value), UNITS[unit])
}

/// A latency given in microseconds: `0.42 µs`, `3.10 ms`, `1.20 s`.
pub fn latency(us: f64) -> String {
    const UNITS: [&str; 3] = ["µs", "ms", "s"];
    if !us.is_finite() {
        return "-".into();
    }
    let mut value = us;
    let mut unit = 0;
    while value.abs() >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// How many times as much as something else: `12.30`, `0.45`, `0.012`.
pub fn times(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.1 { format!("{ratio:.3}") } else { format!("{ratio:.2}") }
}

/// A share between 0 and 1 in percent: `0%`, `0.12%`, `34%`; what is not nothing never reads as 0%.
pub fn share(of_one: f64) -> String {
    let percent = of_one * 100.0;
    if !percent.is_finite() {
        "-".into()
    } else if percent == 0.0 {
        "0%".into()
    } else if percent < 0.01 {
        "<0.01%".into()
    } else if percent < 0.995 {
        format!("{percent:.2}%")
    } else if percent < 9.95 {
        format!("{percent:.1}%")
    } else {
        format!("{percent:.0}%")
    }
}

fn three_digits(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".into()
    } else if size < 9.995 {
        format!("{value:.2}")
    } else if size < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn rates_take_the_next_unit_before_they_would_show_four_digits() {
        assert_eq!(rate(0.0), "0");
        assert_eq!(rate(7.0), "7");
        assert_eq!(rate(12.34), "12.3");
        assert_eq!(rate(999.4), "999");
        assert_eq!(rate(999.6), "1.00k");
        assert_eq!(rate(1_234_567.0), "1.23M");
        assert_eq!(rate(f64::NAN), "-");
    }

    #[test]
    fn latencies_and_shares() {
        assert_eq!(latency(0.0), "0 µs");
        assert_eq!(latency(0.42), "0.42 µs");
        assert_eq!(latency(3_100.0), "3.10 ms");
        assert_eq!(latency(2_500_000.0), "2.50 s");
        assert_eq!(share(0.0), "0%");
        assert_eq!(share(0.000_01), "<0.01%");
        assert_eq!(share(0.001_2), "0.12%");
        assert_eq!(share(0.034), "3.4%");
        assert_eq!(share(0.34), "34%");
        assert_eq!([0.0, 0.0123, 0.45, 12.3].map(times), ["0.00", "0.012", "0.45", "12.30"]);
    }
}

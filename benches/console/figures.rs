//! A figure, its bound, and whether it was missed.

/// Prints the heads of the lines.
pub fn heads() {
    println!("{:<44} {:>24} {:>10}", "", "median (min - max)", "bound");
}

/// Minimum, median, maximum.
pub fn middle(values: &[f64]) -> (f64, f64, f64) {
    let mut all = values.to_vec();
    all.sort_by(f64::total_cmp);
    let last = all.len().saturating_sub(1);
    (all[0], all[last / 2], all[last])
}

/// Prints a line. The bound is for the median; none: for information.
pub fn line(name: &str, unit: &str, values: &[f64], bound: Option<f64>) {
    let (least, median, most) = middle(values);
    let digits = usize::from(most < 10.0) + usize::from(most < 3.0);
    let figure = format!("{median:.digits$} ({least:.digits$} - {most:.digits$}) {unit}");
    let (bound, verdict) = match bound {
        None => (String::new(), ""),
        Some(bound) if median <= bound => (format!("{bound} {unit}"), "kept"),
        Some(bound) => (format!("{bound} {unit}"), "MISSED"),
    };
    println!("{name:<44} {figure:>28} {bound:>10} {verdict}");
}

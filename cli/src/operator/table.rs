pub(super) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heading.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            line.push_str(cell);
            // `format!` has a width of at most 65,535.
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        format!("{}\n", line.trim_end())
    };
    let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    line(heading) + &rows.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [["orders/Zürich".to_owned(), "1".to_owned()], ["a".to_owned(), String::new()]];
        assert_eq!(table(["NAME", "FENCE"], &rows), "NAME           FENCE\norders/Zürich  1\na\n");
        let long = "x".repeat(70_000);
        assert_eq!(
            table(["A", "B"], &[[long.clone(), String::new()]]).lines().last(),
            Some(&*long)
        );
    }
}

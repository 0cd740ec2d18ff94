SELECT CAST(SUM(table_rows) AS SIGNED) FROM information_schema.tables
WHERE table_schema = {schema} AND table_name IN ('{prefix}_lease', '{prefix}_hold');

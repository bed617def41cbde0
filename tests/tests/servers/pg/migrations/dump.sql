-- Tables with columns, then constraints, domains, indexes, triggers and functions, as the server prints them. NOT NULL
-- constraints are omitted, because only newer servers list them.

SELECT format('column %s.%s %s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
    CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
    CASE WHEN a.attidentity <> '' THEN ' identity'
         ELSE coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') END)
FROM pg_class AS c
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'plexsphere'::regnamespace AND c.relkind = 'r'
UNION ALL
SELECT format('constraint %s %s %s', c.relname, o.conname, pg_get_constraintdef(o.oid))
FROM pg_constraint AS o JOIN pg_class AS c ON c.oid = o.conrelid
WHERE o.connamespace = 'plexsphere'::regnamespace AND o.contype <> 'n'
UNION ALL
SELECT format('domain %s %s %s', t.typname, format_type(t.typbasetype, t.typtypmod),
    (SELECT string_agg(o.conname || ' ' || pg_get_constraintdef(o.oid), ' ' ORDER BY o.conname)
     FROM pg_constraint AS o WHERE o.contypid = t.oid))
FROM pg_type AS t WHERE t.typnamespace = 'plexsphere'::regnamespace AND t.typtype = 'd'
UNION ALL
SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = 'plexsphere'
UNION ALL
SELECT format('trigger %s', pg_get_triggerdef(t.oid))
FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'plexsphere'::regnamespace AND NOT t.tgisinternal
UNION ALL
SELECT format('function %s', regexp_replace(pg_get_functiondef(p.oid), '\s*\n\s*', ' ', 'g'))
FROM pg_proc AS p WHERE p.pronamespace = 'plexsphere'::regnamespace

"""What each grammar of the library takes and does not take."""

from __future__ import annotations

GOOD: dict[str, list[str]] = {
    "arithmetic": ["1", "1 + 2*(3 - 4)", "-2**-3", "0.5e-3/7", "((1))", "1--1"],
    "cron": ["* * * * *", "*/5 0-6,22 1,15 JAN-MAR mon", "@daily", "0 12 31 12 7", "1-10/2 3 * * Sun"],
    "csv": ["a,b\n1,2\n", 'x,"say ""hi"", ok"\r\n', "a", ",\n,", '"two\nlines",b', '"",a'],
    "dot": [
        "graph { a -- b }",
        'digraph G {\n  node [shape=box, color="red"];\n  a -> b -> {c d} [label="x"]\n  rankdir = LR\n}',
        "strict digraph { subgraph cluster_0 { x:n -> 1.5 } }",
        "graph g {}",
        "digraph { nodes -> edges; Graphs -> _1 }",
    ],
    "email": ["ada@example.org", "a.b+c@x-y.co.uk", "o'neil_1@a1.museum"],
    "http_request_line": [
        "GET / HTTP/1.1", "POST /a/b?c=d%20e HTTP/1.0", "OPTIONS * HTTP/1.1", "CONNECT example.org:443 HTTP/1.1",
        "GET http://example.org:8080/x?y HTTP/1.1",
    ],
    "iso8601": [
        "2024-02-29", "1999-12-31T23:59:59.999Z", "2000-02-29T00:00+05:30", "12:30", "P1Y2M3DT4H5M6.7S", "P3W", "PT36H",
        "0004-02-29", "2023-04-30T01:02:03",
    ],
    "json": [
        "{}", "[]", "0", '"\\u00e9\\n"', '{"a": [1, -2.5e+3, true, null], "b": {"c": "d"}}',
        '{\n  "a": [\n    1,\n    2\n  ]\n}', "[[],[[]]]", "-0.0",
    ],
    "json_lines": ['{"a":1}\n{"a":2}\n', "1", '[1, 2]\n"x"\nnull', '{"a": {"b": []}}\r\n{}'],
    "markdown_table": [
        "| a | b |\n|---|:-:|\n| 1 | 2 |\n", "| x |\n| - |", "| a | b | c |\n|:--|--:|---|\n| 1 |  | 3 |\n| \\| | y | z |",
    ],
    "pgn": [
        '[Event "Casual"]\n[Result "1-0"]\n\n1. e4 e5 2. Nf3 Nc6 3. Bb5 {Spanish} a6 4. O-O $1 exd5 1-0\n',
        '[Event "?"]\n\n1. d4 d5 (1... Nf6 2. c4) 2. c4 *',
        '[A "b\\"c"]\n\n1. e4 1/2-1/2',
        '[A "b"]\n\n1. e4 e5\n2. exf8=Q# Kxf8!? 0-1',
    ],
    "phone": ["+49 30 1234567", "+14155552671", "(415) 555-2671", "415-555-2671", "+1 (415) 555.2671"],
    "python": [
        "x = 1\n",
        "def f(a, b=2, *args, c, **kw) -> int:\n    # comment\n    return a + b\n\n\nclass A(B, metaclass=M):\n    x: int = 3\n",
        "for i, (a) in []:\n    pass\n".replace("(a)", "a"),
        "if x:\n  y\nelif z:\n  pass\nelse:\n  while 1: break\n",
        "try:\n    f(*a, b=1, **c)\nexcept (A, B) as e:\n    raise X from e\nfinally:\n    pass\n",
        "with open(p) as f, g: x = y = f.read()\n",
        "from ..a import (b as c, d,)\nimport os.path as p, sys\n",
        "a, b = b, a; x += 1; del a[0], b.c\n",
        "@d(1)\nasync def f(): return await g()\n",
        "x = {\n    'a': 1,\n\n    # inside\n  'b': [\n1, 2],\n}\n",
        "lambda *a, k=1: (yield)\n",
        '"""doc\nstring"""\nx = r"\\d" "a\\n" \'b\'\ny = b"\\x00"\n',
        "\n\n# first\nx = 0x_ff + 1_000.5e-3j + 0b1\n",
        "x = 1  # c\n",
        "",
    ],
    "python_expression": [
        "1 + 2 * 3", "[x for x in range(10) if x % 2 if x]", "f(a, *b, c=d, **e)[1:2, ::3].g", "x if y else lambda: z",
        "{1: 2, **a}", "{*a, b}", "not a in b is not c", "(x := 3)", "(yield)", "'a' \"b\"", "-1 ** -2", "a or b and not c",
        "()", "(a,)", "(*a, b)", "{k: v for k, v in d.items()}", "f(x for x in y)", "await x", "a @ b // c << d & e | ~f",
        '""', "...",
    ],
    "semver": ["1.0.0", "0.10.3-alpha.1+build.5", "1.2.3--.0a", "1.0.0-0A.is.legal", "10.20.30+exp-sha"],
    "smiles": ["CCO", "c1ccccc1", "C(=O)O", "[13CH4]", "N[C@@H](C)C(=O)O", "[Na+].[Cl-]", "C/C=C\\C", "CC%12CC%12", "[Cu++]",
               "[OH3+]", "O=C=O"],
    "sql": [
        "SELECT 1",
        "select a, b.c as x, count(*) from t as b left join u using (id) where a > 1 and not b.c is null "
        "group by a having count(*) > 2 order by x desc nulls last limit 10 offset 5;",
        "INSERT INTO t (a, b) VALUES (1, 'it''s'), (NULL, x'ff')",
        "UPDATE t SET a = a + 1, b = CASE WHEN a THEN 'x' ELSE 'y' END WHERE id IN (SELECT id FROM u)",
        "DELETE FROM t WHERE a BETWEEN 1 AND 2 AND b NOT LIKE '%x%' RETURNING *",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c",
        "SELECT sum(a) OVER (PARTITION BY b ORDER BY c) FROM (SELECT * FROM t) s, u\n  WHERE EXISTS (SELECT 1)",
        'SELECT "a b", -1 - -1, \'x\' || ?, CAST(a AS DECIMAL(10, 2)) FROM main.t',
        "REPLACE INTO t DEFAULT VALUES",
        "SELECT selects FROM fromage",
    ],
    "toml": [
        'a = 1\n[b.c]\nd = "e"\n[[f]]\ng = [1, 2,\n  3]\n',
        "",
        "# comment\nx.y = {a = 1, \"b\" = 'c'}\nt = 1979-05-27T07:32:00Z\nu = 07:32:00.5\n",
        'm = """\nline "quoted" \\\n  joined"""\nn = \'\'\'raw\\\'\'\'\nf = [1.5e3, -inf, nan, +0.0]\nh = 0xFF_ff\nb = true',
        '"" = 1',
        "d = 1979-05-27 07:32:00 # space\n",
    ],
    "unified_diff": [
        "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@ def f():\n context\n-old\n+new\n",
        "diff --git a/f b/f\nindex 1234567..89abcde 100644\n--- a/f\t2024-01-01\n+++ b/f\n"
        "@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
        "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n@@ -9,1 +9,0 @@\n-c\n--- c\n+++ d\n@@ -1 +1 @@\n-a\n",
    ],
    "url": [
        "https://example.org", "http://user:pw@example.org:8080/a/b%20c?q=1&r=2#frag", "ftp://192.168.0.1/x",
        "http://[2001:db8::1]/", "ws://localhost:65535", "https://a-b.example.co.uk/",
    ],
    "xml": [
        "<feed/>",
        '<?xml version="1.0" encoding="UTF-8"?>\n<feed><item id="1" type=\'a\'>x &amp; y<![CDATA[ <b> ]]></item><!-- c --></feed>',
        "<list>\n  <entry>&#65;</entry>\n</list >",
    ],
    "yaml": [
        "a: 1\n", "---\nname: some words\nlist:\n  - 1\n  - \"x\"\nmap:\n    k: 'it''s'\n    l: []\n", "- a\n-\n  - b\n  - c\n",
        "a:\n  b:\n    c: d\ne: f\n", '"k y": -1.5e3\n',
    ],
}  # fmt: skip

BAD: dict[str, list[str]] = {
    "arithmetic": ["", "1 +", "01", "(1", "1 2", "a", "1  + 2"],
    "cron": ["* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "@never", "* * * * 8"],
    "csv": ["", 'a"b', '"a', '"a"b', "a\n\nb"],
    "dot": ["graph { a -> b }", "digraph { a -- b }", "graph", "graph { node }", "graph edge { }", "digraph { strict -> a }"],
    "email": ["a@b", "@x.org", "a..b@x.org", "a@-x.org", "a b@x.org", "a@x.org1"],
    "http_request_line": ["GET /", "get / HTTP/1.1", "GET  / HTTP/1.1", "GET * HTTP/1.1", "GET /a b HTTP/1.1", "GET / HTTP/2"],
    "iso8601": ["2023-02-29", "1900-02-29", "2024-13-01", "24:00", "2024-04-31", "0000-01-01", "P", "PT", "P1H", "2024-1-1"],
    "json": ["", "{", '{"a" 1}', "[1,]", "01", "'a'", '"\n"', "[1  ,2]", "\n\n1", '{"a": .5}', "nul"],
    "json_lines": ['{"a":\n1}', "1\n\n2", '{"a":1},', "[1,  2]"],
    "markdown_table": ["| a | b |\n|---|\n", "| a |\n", "a | b\n---|---\n", "| a |\n|---|\n| 1 | 2 |"],
    "pgn": ["1. e4 *", '[a "b"]\n\n1. e4 *', '[A "b"]\n\n1. e9 *', '[A "b"]\n\n1. e4', '[A "b"]\n\ne4 *', '[A "b"]\n\n1. e8 *'],
    "phone": ["123", "+0123456789", "+1234", "(115) 555-2671", "415 555 2671", "+1234567890123456"],
    "python": [
        "x = \n", "if x:\npass\n", "  x = 1\n", "x = 1", "def f(a=1, b): pass\n", "f(a=1, b)\n", "1 = x\n", "f() = 1\n",
        "x +\n", "for x in y: \n", "try:\n    pass\n", "class = 1\n", "if a:\n  b\n c\n", "x = (1\n", "return return\n",
        "x ifx\n", "a  = 1\n", "if x:\n", "\tx\n", '"""a"\n', "print 'x'\n", "else: pass\n",
    ],
    "python_expression": [
        "", "1 +", "a b", "x = 1", "(", "f(a=1, b)", "lambda x=1, y: x", "[*a for a in b]", "'a' b'c'", "1_", "01", "if", "a.1",
        "not", "*a", "{**a, b}", "x[", "1if x else y", "'\\x4'", '"""', "a b", "1..real", "{a: b, c}", "f(**a, *b)",
    ],
    "semver": ["1.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0+", "v1.0.0", "1.0.0-a..b"],
    "smiles": ["", "C(", "[X]", "C)", "C==C", "(C)", "[C", "Q", "C(O))"],
    "sql": [
        "", "SELECT", "SELECT FROM t", "SELECT a FROM", "SELECT from FROM t", "SELECTa", "INSERT t VALUES (1)", "UPDATE t a = 1",
        "SELECT a b c", "SELECT 1;;", "SELECT 'a", "SELECT 1--1", "DROP TABLE t", "SELECT (1", "SELECT 1a", "DELETE t",
        "SELECT * FROM t WHERE", "SELECT a,, b", "SELECT  1", "SELECT 1 ORDER BY",
        "SELECT raise < 1 FROM t", "SELECT a indexed FROM t",
    ],
    "toml": [
        "a", "a = ", "= 1", "a = 01", "[a", "a = 'b\nc'", 'a = "\\q"', "a = 1 b = 2", "a = 2024-02-30", "a = [1", "a = .5",
        "a.b. = 1", "{a = 1}", "a = True", "a = {b = 1,}",
    ],
    "unified_diff": ["--- a\n", "--- a\n+++ b\n", "+++ b\n--- a\n@@ -1 +1 @@\n-a\n", "--- a\n+++ b\n@@ -1 +1 @@\n?\n", "x"],
    "url": ["example.org", "http://", "http://a", "http://x.org:99999", "http://x.org/a b", "http://x.org/%zz", "gopher://x.org",
            "http://256.1.1.1", "http://[1]"],
    "xml": ["", "<feed>", "<feed></item>", "<feed>&x;</feed>", "<feed><</feed>", "<a/>", '<feed id="1" id="2"/>', "<feed/><feed/>",
            "<feed><!-- a -- b --></feed>", "x<feed/>"],
    "yaml": ["", "a:1\n", "a: 1", "a: 1\n  b: 2\n", "a:\n- 1\n b: 2\n", "a: b: c\n", "- a\nb: c\n", "a: [1, 2]\n", "\ta: 1\n",
             "a:\nb: 1\n"],
}  # fmt: skip

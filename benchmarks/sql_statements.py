"""SELECT statements of `benchmarks/select.lark` and of the library's `sql`, one JSON string a line.

    python benchmarks/sql_statements.py > statements.jsonl
    constrained bench masks --lark benchmarks/select.lark --texts statements.jsonl --tokenizer tokenizer.json

The same seed gives the same statements.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable

TABLES = ["orders", "customers", "items", "events", "sessions", "invoices", "employees", "regions"]
COLUMNS = [
    "id", "name", "price", "created_at", "status", "country", "quantity", "total", "email", "parent_id", "score", "kind",
]  # fmt: skip
FUNCTIONS = ["count", "sum", "avg", "max", "coalesce", "lower", "length"]
TEXTS = ["open", "New York", "2024-01-31", "O''Brien", "%shoes%", "a_b", "", "naïve café"]


class Statements:
    """Random statements; `depth` bounds how expressions and subqueries nest."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def select(self, depth: int = 2) -> str:
        """One statement without a semicolon."""
        draw = self._random
        parts = ["SELECT"]
        if draw.random() < 0.1:
            parts.append("DISTINCT")
        count = draw.randint(1, 4)
        parts.append("*" if draw.random() < 0.2 else ", ".join(self._column(depth) for _ in range(count)))
        parts += ["FROM", self._table(depth)]
        for _ in range(draw.choice([0, 0, 0, 1, 2])):
            parts += [draw.choice(["JOIN", "LEFT JOIN"]), self._table(0), "ON", f"{self._name()} = {self._name()}"]
        if draw.random() < 0.7:
            parts += ["WHERE", self._condition(depth)]
        if draw.random() < 0.25:
            parts += ["GROUP BY", self._name()]
            if draw.random() < 0.4:
                parts += ["HAVING", f"count(*) > {draw.randint(1, 100)}"]
        if draw.random() < 0.4:
            parts += ["ORDER BY", self._name() + draw.choice(["", " ASC", " DESC"])]
        if draw.random() < 0.3:
            parts += ["LIMIT", str(draw.randint(1, 1000))]
        return " ".join(parts)

    def _table(self, depth: int) -> str:
        if depth and self._random.random() < 0.1:
            return f"({self.select(depth - 1)}) AS t{self._random.randint(1, 9)}"
        return self._random.choice(TABLES)

    def _column(self, depth: int) -> str:
        expression = self._value(depth)
        return f"{expression} AS {self._random.choice(COLUMNS)}" if self._random.random() < 0.3 else expression

    def _name(self) -> str:
        column = self._random.choice(COLUMNS)
        return f"{self._random.choice(TABLES)}.{column}" if self._random.random() < 0.3 else column

    def _value(self, depth: int) -> str:
        draw = self._random
        plain: list[Callable[[], str]] = [
            self._name,
            self._name,
            lambda: str(draw.choice([0, 1, 42, 3.5, 1000])),
            lambda: f"'{draw.choice(TEXTS)}'",
        ]
        if not depth:
            return draw.choice(plain)()
        nested: list[Callable[[], str]] = [
            lambda: f"{draw.choice(FUNCTIONS)}({self._value(depth - 1)})",
            lambda: f"{self._value(depth - 1)} {draw.choice(['+', '-', '*', '/', '||'])} {self._value(0)}",
            lambda: f"({self._value(depth - 1)} + {self._value(0)})",
            lambda: f"CASE WHEN {self._condition(0)} THEN {self._value(0)} ELSE {self._value(0)} END",
        ]
        return draw.choice(plain * 2 + nested)()

    def _condition(self, depth: int) -> str:
        draw = self._random
        if depth and draw.random() < 0.4:
            return f"{self._condition(depth - 1)} {draw.choice(['AND', 'OR'])} {self._condition(depth - 1)}"
        kinds: list[Callable[[], str]] = [
            lambda: f"{self._name()} {draw.choice(['=', '<>', '<', '>='])} {self._value(depth and depth - 1)}",
            lambda: f"{self._name()} LIKE '{draw.choice(TEXTS)}'",
            lambda: f"{self._name()} IN ({', '.join(str(draw.randint(0, 99)) for _ in range(draw.randint(1, 4)))})",
            lambda: f"{self._name()} BETWEEN {draw.randint(0, 9)} AND {draw.randint(10, 99)}",
            lambda: f"{self._name()} IS NOT NULL",
        ]
        if depth:
            kinds.append(lambda: f"{self._name()} IN ({self.select(0)})")
        return draw.choice(kinds)()


def main() -> int:
    """Print statements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=500, help="how many (500)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    made = Statements(options.seed)
    for _ in range(options.n):
        print(json.dumps(made.select(), ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Write `tasks.json`, 40 tasks of four kinds for a shop's database, and the database itself.

Each task expects something of the database after the last turn, or of the last reply; what is
right is asked of the database here, so that tasks and data agree. The solution of each proves that
it can be solved.

    python make_tasks.py
"""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SERVER = {
    "command": "uvx",
    "args": [
        "--with",
        "mcp==1.30.0",
        "mcp-server-sqlite@2025.4.25",
        "--db-path",
        "${EPISODE_DIR:data}/shop.db",
    ],
}
"""Each episode has a copy of `data`. The server is older than version 2 of its library `mcp`."""
SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, price REAL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, product INTEGER, quantity INTEGER);
"""
CUSTOMERS = {
    "Ada": "Oslo",
    "Bela": "Lyon",
    "Carl": "Riga",
    "Dora": "Oslo",
    "Emil": "Graz",
    "Fay": "Lyon",
    "Gus": "Riga",
    "Hana": "Graz",
    "Ivo": "Oslo",
    "Jill": "Lyon",
}
PRODUCTS = {
    "bread": 3.2,
    "butter": 2.75,
    "cheese": 8.4,
    "coffee": 6.9,
    "honey": 5.5,
    "juice": 2.1,
    "olives": 4.25,
    "pasta": 1.8,
    "rice": 2.6,
    "tea": 3.95,
}
NEW_CUSTOMERS = {
    "Kim": "Oslo",
    "Lars": "Riga",
    "Mona": "Lyon",
    "Nils": "Graz",
    "Olga": "Oslo",
    "Pia": "Riga",
    "Quin": "Lyon",
    "Rosa": "Graz",
    "Sven": "Oslo",
    "Tara": "Riga",
}
ORDERS = 120
SEED = 2
"""With these orders, every product has one customer who ordered the most of it."""
SPENT = """
SELECT round(sum(price * quantity), 2) FROM orders JOIN products ON products.id = product
WHERE customer = (SELECT id FROM customers WHERE name = '{}')
"""
PIECES = """
SELECT customers.name, sum(quantity) AS pieces FROM orders
JOIN customers ON customers.id = customer JOIN products ON products.id = product
WHERE products.name = '{}' GROUP BY customers.id ORDER BY pieces DESC
"""


def make_database(path: Path) -> None:
    """Write the shop's database anew."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    chance = random.Random(SEED)
    orders = [[1 + int(chance.random() * most) for most in (10, 10, 6)] for _ in range(ORDERS)]
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(SCHEMA)
        db.executemany("INSERT INTO customers (name, city) VALUES (?, ?)", CUSTOMERS.items())
        db.executemany("INSERT INTO products (name, price) VALUES (?, ?)", PRODUCTS.items())
        db.executemany("INSERT INTO orders (customer, product, quantity) VALUES (?, ?, ?)", orders)


def ask(sql: str) -> dict[str, Any]:
    """Return the call that asks the database, once the agent is done."""
    return {"name": "read_query", "arguments": {"query": sql}}


def change(sql: str) -> dict[str, Any]:
    """Return the call that changes the database."""
    return {"name": "write_query", "arguments": {"query": sql}}


def spent(name: str, amount: float) -> dict[str, Any]:
    """Return a task whose answer is an amount of money."""
    return {
        "id": f"spent-{name.lower()}",
        "prompt": f"What did {name} spend in all orders together? An order costs the price of its "
        "product times its quantity. Say the amount in your last reply.",
        "evaluate": [{"reply": {"number": amount, "tolerance": 0.01}, "name": "said"}],
        "solution": [ask(" ".join(SPENT.format(name).split())), {"reply": f"It is {amount:.2f}."}],
    }


def most(product: str, name: str) -> dict[str, Any]:
    """Return a task whose answer is the name of one customer, and of no other."""
    others = "|".join(other for other in CUSTOMERS if other != name)
    right = {"matches": f"\\b{name}\\b"}
    wrong = {"matches": f"\\b(?:{others})\\b"}
    return {
        "id": f"most-{product}",
        "prompt": f"Which customer ordered the most pieces of {product}? Say the name, and no "
        "other customer's, in your last reply.",
        "evaluate": [{"reply": {"all": [right, {"not": wrong}]}, "name": "said"}],
        "solution": [ask(" ".join(PIECES.format(product).split())), {"reply": f"It is {name}."}],
    }


def add(name: str, city: str) -> dict[str, Any]:
    """Return a task to insert a row."""
    where = f"WHERE name = '{name}'"
    rows = f"SELECT count(*) AS n FROM customers {where}"
    return {
        "id": f"add-{name.lower()}",
        "prompt": f"Add the new customer {name}, who lives in {city}.",
        "evaluate": [
            {"call": ask(rows), "expect": {"number": 1}, "name": "added", "weight": 2},
            {
                "call": ask(f"SELECT city FROM customers {where}"),
                "expect": {"contains": f"'{city}'"},
                "name": "city",
            },
        ],
        "solution": [change(f"INSERT INTO customers (name, city) VALUES ('{name}', '{city}')")],
    }


def dearer(product: str, percent: int) -> dict[str, Any]:
    """Return a task to update a row; the other rows count only once this one has changed."""
    price = PRODUCTS[product] * (100 + percent) / 100
    others = sum(PRODUCTS.values()) - PRODUCTS[product]
    here = f"SELECT price FROM products WHERE name = '{product}'"
    rest = f"SELECT abs(sum(price) - {others:.2f}) < 0.001 FROM products WHERE name <> '{product}'"
    kept = f"SELECT ({here}) <> {PRODUCTS[product]} AND ({rest}) AS kept"
    return {
        "id": f"dearer-{product}",
        "prompt": f"Raise the price of {product} by {percent} percent. No other price changes.",
        "evaluate": [
            {
                "call": ask(here),
                "expect": {"number": round(price, 4), "tolerance": 0.006},
                "name": "price",
                "weight": 2,
            },
            {"call": ask(kept), "expect": {"number": 1}, "name": "others"},
        ],
        "solution": [
            change(
                f"UPDATE products SET price = price * {100 + percent} / 100.0 "
                f"WHERE name = '{product}'"
            )
        ],
    }


def main() -> None:
    """Write the database and the tasks."""
    path = HERE / "data" / "shop.db"
    make_database(path)
    with closing(sqlite3.connect(path)) as db:
        amounts = {name: db.execute(SPENT.format(name)).fetchone()[0] for name in CUSTOMERS}
        buyers = {product: db.execute(PIECES.format(product)).fetchmany(2) for product in PRODUCTS}
    if any(first[1] == second[1] for first, second in buyers.values()):
        raise SystemExit("two customers ordered the most of a product: take another SEED")
    kinds = [
        [spent(name, amount) for name, amount in amounts.items()],
        [most(product, first[0]) for product, (first, _) in buyers.items()],
        [add(name, city) for name, city in NEW_CUSTOMERS.items()],
        [dearer(product, 5 + 5 * number) for number, product in enumerate(PRODUCTS)],
    ]
    tasks = [{**task, "mcp_config": {"shop": SERVER}} for kind in kinds for task in kind]
    text = json.dumps(tasks, indent=2)
    (HERE / "tasks.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

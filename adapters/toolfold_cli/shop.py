"""The example of `toolfold demo` and of the documentation: the back office of a small shop, over a SQLite database.

Forty-two tools, thirty-nine of them in six groups. Opening `orders` opens the database, which the groups in it use;
closing it closes the database. Managers alone pay money back. While stock is counted nothing is sold, so `orders`
and `stock.count` exclude each other; nothing can be counted with a scanner that is empty.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from functools import cache
from typing import Any, Literal

from toolfold import Context, HookContext, Slot, ToolError, ToolSet, View, Visibility

Rows = list[dict[str, Any]]

tools = ToolSet("shop", control="open_group")

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, town TEXT, note TEXT DEFAULT '');
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, customer INTEGER, state TEXT, total REAL, day TEXT, address TEXT DEFAULT '');
CREATE TABLE items (order_id INTEGER, sku TEXT, count INTEGER);
CREATE TABLE refunds (id INTEGER PRIMARY KEY, order_id INTEGER, amount REAL, state TEXT, reason TEXT);
INSERT INTO customers (id, name, email, town) VALUES
  (1, 'Ada Moss', 'ada@shop.example', 'Bergen'), (2, 'Ben Okoro', 'ben@shop.example', 'Turku');
INSERT INTO orders (id, customer, state, total, day) VALUES (4711, 1, 'paid', 57.5, '2026-11-02'),
  (4712, 2, 'shipped', 14.5, '2026-11-03'), (4713, 1, 'open', 29.9, '2026-11-09');
INSERT INTO items VALUES (4711, 'KET-1', 1), (4711, 'CUP-4', 1), (4712, 'TEA-9', 2), (4713, 'POT-2', 1);
"""


@cache
def shop() -> sqlite3.Connection:
    """Return the connection that keeps the database in memory while the process runs."""
    connection = connect()
    connection.executescript(SHOP)
    return connection


def connect() -> sqlite3.Connection:
    """Return a new connection to the shop's database, for tools, which run in worker threads."""
    return sqlite3.connect(f"file:shop-{id(tools)}?mode=memory&cache=shared", uri=True, check_same_thread=False)


database = Slot[sqlite3.Connection]("database")


def open_database(hook: HookContext) -> None:
    """Open a connection for the session."""
    shop()
    database.fill(hook, connect())


def close_database(hook: HookContext) -> None:
    """Close the session's connection."""
    with suppress(LookupError):  # where the process that opened it has ended
        database.empty(hook).close()


def check_scanner(hook: HookContext) -> None:
    """Refuse to open `stock.count` unless the session has charged its scanner."""
    if hook.facts.get("scanner") != "charged":
        raise ToolError("The scanner is empty: call charge_scanner, then open the group again.")


def rows(context: Context, query: str, *values: object) -> Rows:
    """Return the rows of a query in the session's database, as dictionaries; a value that it can't have is refused."""
    connection = database.of(context)
    with connection:
        try:
            cursor = connection.execute(query, values)
        except OverflowError as error:
            raise ToolError("One of the numbers is too large: they have at most 18 digits here.") from error
        except UnicodeError as error:
            raise ToolError("One of the texts is not Unicode: it has half a character.") from error
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def only_row(context: Context, what: str, query: str, *values: object) -> dict[str, Any]:
    """Return the one row of a query, or say that there is no such thing."""
    found = rows(context, query, *values)
    if not found:
        raise ToolError(f"There is no {what} {values[0]!r}.")
    return found[0]


def is_manager(view: View) -> bool:
    """Whether the caller is a manager: a fact of the session."""
    return view.facts.get("role") == "manager"


tools.register_group(
    "orders",
    "Find, change and ship orders",
    on_activate=open_database,
    on_deactivate=close_database,
    resume=open_database,
)
tools.register_group("refunds", "Pay money back to customers", parent="orders")
tools.register_group("customers", "Look after the people who order", parent="orders")
tools.register_group("stock", "Products, prices and shelves")
tools.register_group("count", "Count the shelves; no orders meanwhile", parent="stock", on_activate=check_scanner)
tools.register_group("suppliers", "Buy from suppliers")
tools.register_exclusion("orders", "stock.count")


@tools.tool(annotations={"readOnlyHint": True})
def opening_hours(day: str) -> str:
    """Say when the shop is open on a day of the week."""
    return "closed" if day.lower() == "sunday" else "9 to 18"


@tools.tool(annotations={"readOnlyHint": True})
def exchange_rate(currency: str) -> float:
    """Return how much of a currency one crown buys, as the shop converts prices today."""
    return {"EUR": 0.086, "USD": 0.094, "GBP": 0.074}.get(currency.upper(), 1.0)


@tools.tool()
def charge_scanner(context: Context) -> str:
    """Charge the scanner that products are counted with."""
    context.set_fact("scanner", "charged")
    return "The scanner is charged."


# -- orders -----------------------------------------------------------------------------------------------------------


@tools.tool(group="orders", annotations={"readOnlyHint": True})
def find(context: Context, state: Literal["open", "paid", "shipped", "cancelled"] | None = None) -> Rows:
    """List orders, the newest first, of one state or of all."""
    return rows(context, "SELECT * FROM orders WHERE ?1 IS NULL OR state = ?1 ORDER BY day DESC", state)


@tools.tool(group="orders", annotations={"readOnlyHint": True})
def show(context: Context, order: int) -> dict[str, Any]:
    """Return an order with its customer, its state and the products in it."""
    found = only_row(context, "order", "SELECT * FROM orders WHERE id = ?", order)
    return {**found, "items": rows(context, "SELECT sku, count FROM items WHERE order_id = ?", order)}


@tools.tool(group="orders")
def create(context: Context, customer: int, sku: str, count: int = 1, price: float = 0.0) -> dict[str, Any]:
    """Begin an order of a customer with one product in it, and return it."""
    made = only_row(
        context,
        "order",
        "INSERT INTO orders (customer, state, total, day) VALUES (?, 'open', ?, date()) RETURNING *",
        customer,
        count * price,
    )
    rows(context, "INSERT INTO items VALUES (?, ?, ?)", made["id"], sku, count)
    return made


@tools.tool(group="orders")
def add_item(context: Context, order: int, sku: str, count: int = 1) -> Rows:
    """Add a product to an open order, and return what the order has now."""
    only_row(context, "open order", "SELECT id FROM orders WHERE id = ? AND state = 'open'", order)
    rows(context, "INSERT INTO items VALUES (?, ?, ?)", order, sku, count)
    return rows(context, "SELECT sku, count FROM items WHERE order_id = ?", order)


@tools.tool(group="orders", annotations={"destructiveHint": True})
def remove_item(context: Context, order: int, sku: str) -> Rows:
    """Take a product out of an order, and return what is left in it."""
    rows(context, "DELETE FROM items WHERE order_id = ? AND sku = ?", order, sku)
    return rows(context, "SELECT sku, count FROM items WHERE order_id = ?", order)


@tools.tool(group="orders")
def set_address(context: Context, order: int, street: str, town: str, postcode: str, country: str = "NO") -> str:
    """Set where an order is sent to."""
    address = f"{street}, {postcode} {town}, {country}"
    only_row(context, "order", "UPDATE orders SET address = ?2 WHERE id = ?1 RETURNING id", order, address)
    return address


@tools.tool(group="orders")
def ship(context: Context, order: int, carrier: str, tracking: str | None = None) -> str:
    """Mark a paid order as shipped with a carrier, and tell the customer the tracking number."""
    only_row(
        context, "paid order", "UPDATE orders SET state = 'shipped' WHERE id = ? AND state = 'paid' RETURNING id", order
    )
    return f"Order {order} is with {carrier}{', ' + tracking if tracking else ''}."


@tools.tool(group="orders", annotations={"destructiveHint": True})
def cancel(context: Context, order: int, reason: str) -> str:
    """Cancel an order that has not been shipped, and tell the customer why."""
    only_row(
        context,
        "order that can be cancelled",
        "UPDATE orders SET state = 'cancelled' WHERE id = ? AND state != 'shipped' RETURNING id",
        order,
    )
    return f"Order {order} is cancelled: {reason}."


# -- orders.refunds ---------------------------------------------------------------------------------------------------


@tools.tool(group="orders.refunds", annotations={"readOnlyHint": True})
def pending(context: Context) -> Rows:
    """List the refunds that customers have asked for and that nobody has decided."""
    return rows(context, "SELECT * FROM refunds WHERE state = 'asked'")


@tools.tool(group="orders.refunds", annotations={"readOnlyHint": True})
def policy(days_since_delivery: int, opened: bool = False) -> str:
    """Say whether a product can be returned after some days, and whether it may have been opened."""
    return "yes" if days_since_delivery <= (14 if opened else 30) else "no"


@tools.tool(group="orders.refunds")
def ask(context: Context, order: int, amount: float, reason: str) -> dict[str, Any]:
    """Note that a customer wants money back for an order; a manager decides."""
    only_row(context, "order", "SELECT id FROM orders WHERE id = ?", order)
    return only_row(
        context,
        "refund",
        "INSERT INTO refunds (order_id, amount, state, reason) VALUES (?, ?, 'asked', ?) RETURNING *",
        order,
        amount,
        reason,
    )


@tools.tool(group="orders.refunds", visibility=Visibility.when(is_manager), annotations={"destructiveHint": True})
def pay(context: Context, refund: int) -> str:
    """Pay back the money of a refund that was asked for."""
    paid = only_row(context, "refund", "UPDATE refunds SET state = 'paid' WHERE id = ? RETURNING amount", refund)
    return f"{paid['amount']:.2f} crowns are on their way."


@tools.tool(group="orders.refunds", visibility=Visibility.when(is_manager))
def refuse(context: Context, refund: int, reason: str) -> str:
    """Refuse a refund, and tell the customer why."""
    only_row(context, "refund", "UPDATE refunds SET state = 'refused' WHERE id = ? RETURNING id", refund)
    return f"Refund {refund} is refused: {reason}."


@tools.tool(group="orders.refunds", visibility=Visibility.when(is_manager))
def give_voucher(context: Context, customer: int, amount: float, message: str = "") -> str:
    """Send a customer a voucher instead of money, with a message."""
    name = only_row(context, "customer", "SELECT name FROM customers WHERE id = ?", customer)["name"]
    return f"A voucher of {amount:.2f} crowns is sent to {name}. {message}".rstrip()


# -- orders.customers -------------------------------------------------------------------------------------------------


@tools.tool(group="orders.customers", annotations={"readOnlyHint": True})
def search(context: Context, words: str) -> Rows:
    """Find customers by parts of their name, address or town."""
    return rows(context, "SELECT * FROM customers WHERE name || email || town LIKE '%' || ? || '%'", words)


@tools.tool(group="orders.customers", annotations={"readOnlyHint": True})
def history(context: Context, customer: int) -> Rows:
    """List all orders of a customer, the newest first."""
    return rows(context, "SELECT * FROM orders WHERE customer = ? ORDER BY day DESC", customer)


@tools.tool(group="orders.customers")
def enrol(context: Context, name: str, email: str, town: str) -> dict[str, Any]:
    """Enter a new customer, and return the entry with its number."""
    return only_row(
        context, "customer", "INSERT INTO customers (name, email, town) VALUES (?, ?, ?) RETURNING *", name, email, town
    )


@tools.tool(group="orders.customers")
def change_email(context: Context, customer: int, email: str) -> str:
    """Change the address to which a customer's mail goes."""
    only_row(context, "customer", "UPDATE customers SET email = ?2 WHERE id = ?1 RETURNING id", customer, email)
    return f"Mail to customer {customer} goes to {email}."


@tools.tool(group="orders.customers")
def add_note(context: Context, customer: int, note: str) -> str:
    """Add a note about a customer that colleagues will see."""
    only_row(context, "customer", "UPDATE customers SET note = note || ?2 WHERE id = ?1 RETURNING id", customer, note)
    return "noted"


@tools.tool(group="orders.customers", annotations={"openWorldHint": True})
def send_mail(context: Context, customer: int, subject: str, text: str) -> str:
    """Send a customer a mail in the name of the shop."""
    email = only_row(context, "customer", "SELECT email FROM customers WHERE id = ?", customer)["email"]
    return f"{subject!r} is sent to {email}, {len(text)} characters."


@tools.tool(group="orders.customers", visibility=Visibility.when(is_manager), annotations={"destructiveHint": True})
def forget(context: Context, customer: int) -> str:
    """Delete all that is known of a customer, as they may demand by law."""
    only_row(context, "customer", "DELETE FROM customers WHERE id = ? RETURNING id", customer)
    return f"Customer {customer} is forgotten."


# -- stock and stock.count --------------------------------------------------------------------------------------------

STOCK = {"KET-1": ("Kettle", 12), "CUP-4": ("Four cups", 3), "TEA-9": ("Green tea", 80), "POT-2": ("Teapot", 0)}
"""What the shop has, and how many of each; it is the same for all sessions, and this example never changes it."""


def product(sku: str) -> tuple[str, int]:
    """Return name and number of a product, or say that there is none."""
    if sku not in STOCK:
        raise ToolError(f"There is no product {sku!r}; the products are {', '.join(STOCK)}.")
    return STOCK[sku]


@tools.tool(group="stock", annotations={"readOnlyHint": True})
def products(words: str = "") -> dict[str, str]:
    """Find products whose name has some words, with their numbers."""
    return {sku: name for sku, (name, _) in STOCK.items() if words.lower() in name.lower()}


@tools.tool(group="stock", annotations={"readOnlyHint": True})
def level(sku: str) -> int:
    """Return how many of a product there are."""
    return product(sku)[1]


@tools.tool(group="stock", annotations={"readOnlyHint": True})
def low(below: int = 5) -> dict[str, int]:
    """List products of which there are fewer than a number."""
    return {sku: count for sku, (_, count) in STOCK.items() if count < below}


@tools.tool(group="stock")
def set_price(sku: str, price: float, since: str | None = None) -> str:
    """Set the price of a product in crowns, at once or since a day."""
    return f"{product(sku)[0]}: {price:.2f} crowns{' since ' + since if since else ''}."


@tools.tool(group="stock")
def move(sku: str, shelf: str) -> str:
    """Note that a product is on another shelf now."""
    return f"{product(sku)[0]} is on shelf {shelf}."


@tools.tool(group="stock")
def add_product(sku: str, name: str, price: float, supplier: str | None = None) -> str:
    """Enter a product that the shop has not sold before."""
    return f"{name} is in the list as {sku}, {price:.2f} crowns{' from ' + supplier if supplier else ''}."


@tools.tool(group="stock", annotations={"destructiveHint": True})
def discontinue(sku: str) -> str:
    """Take a product out of the list; what is left of it is sold off."""
    return f"{product(sku)[0]} is sold off, {product(sku)[1]} left."


@tools.tool(group="stock.count")
def begin(shelf: str) -> str:
    """Begin to count a shelf."""
    return f"Shelf {shelf} is being counted."


@tools.tool(group="stock.count")
def enter(sku: str, found: int) -> str:
    """Enter how many of a product were found."""
    name, expected = product(sku)
    return f"{name}: {found} found, {expected} expected."


@tools.tool(group="stock.count", annotations={"readOnlyHint": True})
def differences(found: dict[str, int]) -> dict[str, int]:
    """Return by how much what was found of products differs from what should be there."""
    return {sku: count - product(sku)[1] for sku, count in found.items() if count != product(sku)[1]}


@tools.tool(group="stock.count", annotations={"destructiveHint": True})
def write_off(sku: str, count: int, reason: Literal["broken", "stolen", "expired"]) -> str:
    """Write off products that can't be sold any more."""
    return f"{count} of {product(sku)[0]} written off: {reason}."


@tools.tool(group="stock.count")
def finish(shelf: str, counted_by: str) -> str:
    """End the count of a shelf, and sign it."""
    return f"Shelf {shelf} was counted by {counted_by}."


# -- suppliers --------------------------------------------------------------------------------------------------------


@tools.tool(group="suppliers", annotations={"readOnlyHint": True})
def quotes(sku: str, count: int) -> dict[str, float]:
    """Ask the suppliers what a number of a product costs."""
    return {"Nord Trade": 0.6 * count * len(product(sku)[0]), "Kap & Co": 0.55 * count * len(product(sku)[0]) + 12}


@tools.tool(group="suppliers")
def buy(supplier: str, sku: str, count: int, deliver_by: str | None = None) -> str:
    """Order products from a supplier, to be delivered by a day."""
    return f"{count} of {product(sku)[0]} ordered from {supplier}{' by ' + deliver_by if deliver_by else ''}."


@tools.tool(group="suppliers", annotations={"readOnlyHint": True})
def deliveries(supplier: str | None = None) -> list[str]:
    """List what is on its way to the shop, from one supplier or from all."""
    return [f"{supplier or 'Nord Trade'}: 20 of Teapot"]


@tools.tool(group="suppliers")
def receive(supplier: str, sku: str, count: int, damaged: int = 0) -> str:
    """Note that a delivery has arrived, and how much of it was damaged."""
    return f"{count - damaged} of {product(sku)[0]} taken in from {supplier}."


@tools.tool(group="suppliers")
def complain(supplier: str, text: str, wants: Literal["replacement", "money"] = "replacement") -> str:
    """Complain to a supplier about a delivery."""
    return f"{supplier} is asked for {wants}, in {len(text)} characters."


@tools.tool(group="suppliers")
def pay_invoice(supplier: str, invoice: str, amount: float) -> str:
    """Pay an invoice of a supplier."""
    return f"{amount:.2f} crowns are paid to {supplier} for {invoice}."

"""The project that `headrace init` writes: small, complete, and right without a database."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PROJECT = """\
# What Headrace keeps, where, and how fresh. docs/project-file.md lists all fields, defaults and units.
project: shop

sites:
  us: {cpu: 0.34 $/core-hour, disk: 0.11 $/GB-month, cores: 4}
  eu: {cpu: 0.34 $/core-hour, disk: 0.11 $/GB-month, cores: 4}

links:
  - {between: [us, eu], bandwidth: 100 Mbps, latency: 40 ms, price: 0.02 $/GB}

# Columns, rows and rates are declared here, so planning needs no database. To read a source from a table in
# PostgreSQL, add:
#   postgres: {dsn: "${US_DSN}", table: public.orders}
# Headrace then reads from the database whatever is not declared here.
sources:
  orders:
    kind: table
    at: us
    key: id
    columns: {id: bigint, customer: bigint, total: bigint, placed: timestamp}
    rows: 2M rows
    rate: 50 /s
  customers:
    kind: table
    at: eu
    key: id
    columns: {id: bigint, country: string}
    rows: 100k rows
    rate: 1 /s

contracts:
  sales: {view: sales_by_country, at: eu, freshness: 30 s, penalty: 0.001 $/row, owner: finance, refresh: auto}
"""

VIEW = """\
SELECT customers.country, count(*) AS orders, sum(orders.total) AS total
FROM orders
JOIN customers ON orders.customer = customers.id
GROUP BY customers.country
"""

FILES: Mapping[str, str] = MappingProxyType({"headrace.yml": PROJECT, "views/sales_by_country.sql": VIEW})
"""File names within the project's folder, with their texts."""

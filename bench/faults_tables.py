"""Faults of captured tables and of what publishes them: somebody migrates, swaps, filters or protects a table."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from bench.faults_model import Expected, Fault, Part, fault
from bench.faults_world import ROLE, World

READ_ANEW, STOPPED, UNTOUCHED = Expected.READ_ANEW, Expected.STOPPED, Expected.UNTOUCHED
SHAPE = "(LIKE old_orders INCLUDING ALL)"


@fault("a captured table is dropped and created again with other rows", READ_ANEW)
def drop_and_create(world: World) -> Iterator[None]:
    world.us(
        "ALTER TABLE orders RENAME TO old_orders; ALTER INDEX orders_pkey RENAME TO old_orders_pkey;"
        f"CREATE TABLE orders {SHAPE}; ALTER TABLE orders OWNER TO app;"
        "INSERT INTO orders SELECT * FROM old_orders WHERE id % 2 = 0; DROP TABLE old_orders"
    )
    yield


@fault("two tables swap their names (blue and green)", READ_ANEW)
def swap_tables(world: World) -> Iterator[None]:
    world.us(
        "CREATE TABLE green (LIKE orders INCLUDING ALL); ALTER TABLE green OWNER TO app;"
        "INSERT INTO green SELECT id, customer, -amount, weight, note, code, state, at FROM orders;"
        "ALTER TABLE orders RENAME TO blue; ALTER TABLE green RENAME TO orders"
    )
    yield


@fault("a table leaves the publication, and comes back after some changes", READ_ANEW)
def leave_publication(world: World) -> Iterator[None]:
    name = world.publication_of("orders")
    world.us(f"ALTER PUBLICATION {name} DROP TABLE orders")
    world.us("UPDATE orders SET amount = amount + 1000000 WHERE id < 500; DELETE FROM orders WHERE id > 1900")
    yield
    if not world.us("SELECT 1 FROM pg_publication_tables WHERE tablename = 'orders'"):
        world.us(f"ALTER PUBLICATION {name} ADD TABLE orders")


def _publish(world: World, how: str) -> None:
    """Publishes the table in another way, and changes rows."""
    name = world.publication_of("orders")
    world.us(f"ALTER PUBLICATION {name} SET TABLE {how}")
    world.us("UPDATE orders SET amount = amount + 1000000, note = 'changed' WHERE id < 900")


@fault("the publication gets a row filter", READ_ANEW)
def filter_publication(world: World) -> Iterator[None]:
    _publish(world, "orders WHERE (id > 1000)")
    yield


@fault("the publication gets a list of columns", READ_ANEW)
def narrow_publication(world: World) -> Iterator[None]:
    _publish(world, "orders (id, customer)")
    yield


@fault("the publication publishes insertions only", READ_ANEW)
def publish_insertions(world: World) -> Iterator[None]:
    name = world.publication_of("orders")
    world.us(f"ALTER PUBLICATION {name} SET (publish = 'insert')")
    world.us("UPDATE orders SET amount = amount + 1000000 WHERE id < 900; DELETE FROM orders WHERE id > 1900")
    yield


@fault("the publication is dropped", READ_ANEW)
def drop_publication(world: World) -> Iterator[None]:
    name = world.publication_of("orders")
    world.us(f"DROP PUBLICATION {name}")
    world.us("UPDATE orders SET amount = amount + 1000000 WHERE id < 900")
    yield


@fault("the replication slot is dropped", READ_ANEW)
def drop_slot(world: World) -> Iterator[None]:
    world.run_alone("us", "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = 'us'")
    world.run_alone("us", "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = 'us'")
    world.us("UPDATE orders SET amount = amount + 1000000 WHERE id < 900")
    yield


@fault("a column is dropped and added again", READ_ANEW)
def drop_and_add_column(world: World) -> Iterator[None]:
    world.us("ALTER TABLE orders DROP COLUMN note; ALTER TABLE orders ADD COLUMN note text DEFAULT 'new'")
    yield


@fault("two columns swap their names", READ_ANEW, Part(sql="ALTER TABLE orders ADD COLUMN spare text;"))
def swap_columns(world: World) -> Iterator[None]:
    world.us(
        "ALTER TABLE orders RENAME COLUMN note TO x; ALTER TABLE orders RENAME COLUMN spare TO note;"
        "ALTER TABLE orders RENAME COLUMN x TO spare"
    )
    yield


@fault("the values of a column are rewritten (ALTER TYPE ... USING)", READ_ANEW)
def rewrite_column(world: World) -> Iterator[None]:
    world.us("ALTER TABLE orders ALTER COLUMN amount TYPE bigint USING amount * 2")
    yield


@fault("a column becomes text, and loses its padding", READ_ANEW)
def char_to_text(world: World) -> Iterator[None]:
    world.us("ALTER TABLE orders ALTER COLUMN code TYPE text USING rtrim(code) || '!'")
    yield


@fault("times lose their zone", STOPPED)
def times_without_zone(world: World) -> Iterator[None]:
    world.us("ALTER TABLE orders ALTER COLUMN at TYPE timestamp USING at AT TIME ZONE 'Asia/Tokyo'")
    yield
    world.us("ALTER TABLE orders ALTER COLUMN at TYPE timestamptz USING at AT TIME ZONE 'Asia/Tokyo'")


@fault("a value of an enum is renamed", READ_ANEW)
def rename_enum_value(world: World) -> Iterator[None]:
    world.us("ALTER TYPE mood RENAME VALUE 'new' TO 'fresh'")
    yield


@fault("the primary key becomes wider", STOPPED)
def widen_key(world: World) -> Iterator[None]:
    world.us(
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey; ALTER TABLE orders ADD PRIMARY KEY (id, customer);"
        "INSERT INTO orders (id, customer, amount) SELECT id, customer + 1000, 7 FROM orders WHERE id < 50"
    )
    yield
    world.us(
        "DELETE FROM orders WHERE customer >= 1000;"
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey; ALTER TABLE orders ADD PRIMARY KEY (id)"
    )


@fault("the primary key is dropped under REPLICA IDENTITY FULL", STOPPED)
def drop_key(world: World) -> Iterator[None]:
    world.us(
        "ALTER TABLE orders REPLICA IDENTITY FULL; ALTER TABLE orders DROP CONSTRAINT orders_pkey;"
        "INSERT INTO orders (id, customer, amount) SELECT id, customer, 7 FROM orders WHERE id < 50"
    )
    yield
    world.us(
        "LOCK TABLE orders; DELETE FROM orders a USING orders b WHERE a.id = b.id AND a.ctid > b.ctid;"
        "ALTER TABLE orders ADD PRIMARY KEY (id);"
        "ALTER TABLE orders REPLICA IDENTITY DEFAULT"
    )


@fault("a table gets a child by INHERITS", STOPPED)
def inherit(world: World) -> Iterator[None]:
    world.us(
        "CREATE TABLE child () INHERITS (orders); ALTER TABLE child OWNER TO app;"
        "INSERT INTO child (id, customer, amount) VALUES (900001, 1, 1), (900002, 2, 2)"
    )
    yield
    world.us("DROP TABLE child")


@fault("row-level security hides rows from our role", STOPPED)
def hide_rows(world: World) -> Iterator[None]:
    world.us(
        "ALTER TABLE orders OWNER TO postgres; GRANT SELECT ON orders TO keeper;"
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON orders USING (id < 100)"
    )
    yield
    world.us(
        "DROP POLICY few ON orders; ALTER TABLE orders DISABLE ROW LEVEL SECURITY; ALTER TABLE orders OWNER TO app"
    )


@fault("a table belongs to another role, and our rights are taken away", STOPPED)
def revoke_rights(world: World) -> Iterator[None]:
    world.us(f"ALTER TABLE orders OWNER TO postgres; REVOKE ALL ON orders FROM {ROLE}, app")
    yield
    world.us("ALTER TABLE orders OWNER TO app")


@fault("a table is renamed, and renamed back", STOPPED)
def rename_table(world: World) -> Iterator[None]:
    world.us("ALTER TABLE orders RENAME TO sold")
    yield
    world.us("ALTER TABLE sold RENAME TO orders")


@fault("a table is truncated and filled by COPY", UNTOUCHED)
def truncate_and_copy(world: World) -> Iterator[None]:
    with psycopg.connect(world.dsn("us")) as session:
        with session.cursor().copy("COPY (SELECT * FROM orders WHERE id > 9) TO STDOUT") as read:
            rows = b"".join(read)
        session.execute("TRUNCATE orders")
        with session.cursor().copy("COPY orders FROM STDIN") as filled:
            filled.write(rows)
    yield


@fault("a table is rewritten by VACUUM FULL and CLUSTER", UNTOUCHED)
def vacuum_full(world: World) -> Iterator[None]:
    world.run_alone("us", "VACUUM FULL orders")
    world.run_alone("us", "CLUSTER orders USING orders_pkey")
    yield


@fault("statistics, a default, an index and a new column are added", UNTOUCHED)
def harmless_migration(world: World) -> Iterator[None]:
    world.us(
        "ALTER TABLE orders ALTER COLUMN amount SET STATISTICS 500, ALTER COLUMN amount SET DEFAULT 3;"
        "CREATE INDEX ON orders (customer); ALTER TABLE orders ADD COLUMN extra text DEFAULT 'x'; ANALYZE orders"
    )
    yield


PARTITIONED = Part(
    sql="""
CREATE TABLE parted (id bigint, region int, amount bigint, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 (id bigint NOT NULL, region int NOT NULL, amount bigint, PRIMARY KEY (id, region));
INSERT INTO parted SELECT i, 1, i FROM generate_series(1, 500) i;
INSERT INTO parted_2 SELECT i, 2, i FROM generate_series(1, 500) i;
""",
    sources='  parted: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: public.parted}, key: [id, region]}',
    contracts="  regions: {view: regions, at: us, freshness: 8 s}",
    views={"regions": "SELECT region, count(*) AS n, sum(amount) AS total FROM parted GROUP BY region"},
)


@fault("a partition is attached, and detached again", READ_ANEW, PARTITIONED)
def attach_partition(world: World) -> Iterator[None]:
    world.us("ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES IN (2); INSERT INTO parted VALUES (900, 2, 1)")
    yield
    world.us("ALTER TABLE parted DETACH PARTITION parted_2")


FAULTS: tuple[Fault, ...] = (
    *(drop_and_create, swap_tables, leave_publication, filter_publication, narrow_publication, publish_insertions),
    *(drop_publication, drop_slot, drop_and_add_column, swap_columns, rewrite_column, char_to_text),
    *(times_without_zone, rename_enum_value, widen_key, drop_key, inherit, hide_rows, revoke_rights, rename_table),
    *(truncate_and_copy, vacuum_full, harmless_migration, attach_partition),
)

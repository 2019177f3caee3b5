-- Tables of a shop, as a dump of PostgreSQL writes them.
CREATE TYPE order_state AS ENUM ('open', 'paid');
CREATE TABLE IF NOT EXISTS public.customers (
    id bigserial PRIMARY KEY,
    name character varying(80) NOT NULL,
    tags text[] DEFAULT '{}',
    born date CHECK (born > '1900-01-01'),
    place point
);
CREATE TABLE orders (
    id bigint NOT NULL, customer_id bigint REFERENCES customers (id),
    total numeric(10, 2) DEFAULT 0, state order_state, placed timestamp with time zone DEFAULT now(),
    CONSTRAINT orders_pkey PRIMARY KEY (id)
);
INSERT INTO orders VALUES (1, 1, 2.50, 'open; not paid', now());
CREATE TABLE visits (id uuid NOT NULL PRIMARY KEY, at timestamp, stay interval, opened time, PRIMARY_CONTACT text);

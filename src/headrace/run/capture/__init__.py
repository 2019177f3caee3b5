"""From a database's log of changes to spools: what a source's raw changes look like before `ingest` reads them.

A spool file holds the declared columns of one source, named `source.column`, and four more:

    __t     int64         time of the transaction on our clock, microseconds
    __n     int64         order inside the time, rising, not always without gaps
    __op    string        what the row does, below
    __kept  list<string>  columns (without the source's name) whose value the log does not have because the statement
                          left it as it was; else NULL. They are NULL in the row

    __op    rows of              meaning
    u       keyed tables         the row with this key is now this one, whether or not there was one
    d       keyed tables         no row has this key any more; only key columns are set. There may have been none
    i       all others, streams  one more such row
    r       tables without key   one such row less; all columns are set
    t       tables               no row at all any more; no column is set
    b, e    keyed tables         begin and end of a reading of the whole table; no column is set

Rows are applied in the order of (__t, __n). What `__kept` names is taken from the row stored under the same key. When
the row before (of the same time, the largest smaller `__n`) is a "d" that has `__kept` itself, then from the row that
was stored under that key: the statement changed the key of a row. Nothing may be stored under the key only while the
table is first read (no note `loaded:SOURCE` yet): take NULL, the complete row follows.

Between "b" and "e" there is a "u" for every row that the table has, along with changes as they happen. At "e" every
stored key without a "u" since the "b" is to be deleted: its deletion was missed when the log was lost. Unchanged rows
come again and have to be dropped by comparison. A "b" without "e" before the next "b" counts for nothing.

    pgoutput      messages of the log, from bytes
    array_text    arrays as PostgreSQL writes them
    text_values   values as PostgreSQL writes them, to Arrow
    spool         which table a source is, and its rows on their way into a spool file
    row_changes   changes of rows to rows of spools
    visibility    which transactions a snapshot sees
    chunks        merging what was read of a table with what changed meanwhile
    clock         times of transactions
    position      how far a database was captured
"""

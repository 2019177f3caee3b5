"""How a query becomes algebra. One way, module by module:

    text            characters -> sqlglot's tree, with the place of every node
    report          mistakes, notes and refusals found on the way
    scope           which columns a name can mean
    environment     what surrounds a query: what is declared, and what is kept over the whole
    literals        constants as written -> values
    operators       typed operators: operands converted to the types they meet in
    calls           functions by name, from the allow-list; `arguments` converts what they are given
    stage           where an expression stands: what it may name and what may occur in it
    expressions     sqlglot's expressions -> model.expr; `forms` are those that depend on their parts alone
    tables, joins   FROM; `laterals` name the items before them, `constants` are rows without FROM, `pivots` are
                    queries of their own
    conditions      WHERE and HAVING, with EXISTS and IN; `subqueries` are those used as values, `quantified` are
                    EXISTS, IN, ANY and ALL used as values
    inner_queries   queries that name columns of those around them: `correlation` by equality, else `decorrelate`
    aggregation     GROUP BY, with its `aggregates` and `time_windows`; `regressions` are several aggregates each
    ranking         ROW_NUMBER() ... <= k; `limits` is ORDER BY ... LIMIT
    select, sets    whole queries, put together in `queries`
    finish          what can only be said of the finished tree: `now`, `streams`, `event_tables`, `arrivals`

A derived table, view or common table expression leaves no operator behind: its columns are expressions over the rows it
reads.
"""

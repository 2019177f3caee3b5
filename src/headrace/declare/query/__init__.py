"""How a query becomes algebra. One way, module by module:

    text            characters -> sqlglot's tree, with the place of every node
    report          mistakes, notes and refusals found on the way
    scope           which columns a name can mean
    literals        constants as written -> values
    operators       typed operators: operands converted to the types they meet in
    calls           functions by name, from the allow-list
    stage           where an expression stands: what it may name and what may occur in it
    expressions     sqlglot's expressions -> model.expr
    tables, joins   FROM
    conditions      WHERE and HAVING, with the subqueries in them
    aggregation     GROUP BY, aggregates, time windows
    ranking         ROW_NUMBER() ... <= k, and ORDER BY ... LIMIT
    select, sets    whole queries
    finish          what can only be said of the finished tree

A derived table, view or common table expression leaves no operator behind: its columns are expressions over the rows it
reads.
"""

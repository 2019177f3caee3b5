"""SQL text to typed algebra: the entry points.

    text --parse--> sqlglot tree --resolve--> model.relation

Views are read together, since views read views. Whatever the text is, the answer is an algebra, a Refusal (valid SQL
that is not maintained, by the operator's name) or Problems with their places; never a traceback.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.answer import Answers
from headrace.declare.query.environment import Books, BrokenView, Declared, Environment, NamedQuery, Purpose, Rows
from headrace.declare.query.expressions import read_condition, read_value
from headrace.declare.query.finish import finish
from headrace.declare.query.items import SelectItem, number_names, outputs
from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.queries import read_query as read_rows
from headrace.declare.query.report import Report, describe_fault
from headrace.declare.query.scope import Scope, fold
from headrace.declare.query.shown_order import find_order
from headrace.declare.query.spark_words import spark_query
from headrace.declare.query.stage import QueryStage
from headrace.declare.query.tables import PUBLIC, scan
from headrace.declare.query.text import Text, parse_condition, parse_query, too_deep
from headrace.model.catalogue import PythonFunction, Refusal, Source, SourceColumn, SourceKind, View
from headrace.model.dialect import SqlDialect
from headrace.model.errors import InputError, Location, Problem, UnsupportedSql
from headrace.model.expr import Column, Expr, rename_columns
from headrace.model.relation import Projection, Relation, fields_of
from headrace.model.types import NULL, STRING, Type


@dataclass(frozen=True, slots=True)
class ViewText:
    """A view as written: its name, its query, and the file to point at (as the user would type it).

    A text that says no dialect is in that of the project.
    """

    name: str
    sql: str
    file: str
    dialect: SqlDialect | None = None

    @property
    def text(self) -> Text:
        """What is read of it."""
        return Text(self.sql, Location(self.file), self.dialect or SqlDialect.SPARK)


def read_views(
    texts: Mapping[str, ViewText], sources: Mapping[str, Source], functions: Mapping[str, PythonFunction]
) -> tuple[dict[str, View], tuple[Problem, ...]]:
    """All views that are valid SQL, and all the mistakes of the others.

    A view that is not maintained has a Refusal for a query, and so has a view that reads it. A view with mistakes is
    absent.
    """
    reader = _Views(texts, sources, {fold(name): function for name, function in functions.items()})
    for name in texts:
        reader.read(name)
    views = {name: view for name in texts if isinstance(view := reader.done[name], View)}
    return views, tuple(reader.problems)


def read_in_full(
    name: str, texts: Mapping[str, ViewText], sources: Mapping[str, Source], functions: Mapping[str, PythonFunction]
) -> Relation | None:
    """What a view means that is evaluated as a whole at one instant, where now() may stand anywhere; None if that is
    not understood either.
    """
    view = _Views(texts, sources, functions, in_full=True).read(name)
    return view.query if isinstance(view, View) and isinstance(view.query, Relation) else None


def find_mentioned(view: ViewText) -> frozenset[str]:
    """The tables that a text names in FROM, whether they exist or not; none if it is not SQL."""
    try:
        return _name_tables(parse_query(view.text))
    except Exception:  # whatever it is: it is reported where the view is read
        return frozenset()


def read_predicate(text: str, where: Location, source: Source) -> Expr:
    """A condition over one source's columns, which are named `source.column`. Raises InputError."""
    written = Text(text, where)
    stage = make_stage(written, source, "a condition")
    with report_mistakes(stage):
        return read_condition(parse_condition(written), stage)


def read_scalar(text: str, where: Location, columns: Mapping[str, Type]) -> Expr:
    """A value over columns that go by their own names. Raises InputError."""
    written, name = Text(text, where), "entry"
    fields = tuple(SourceColumn(column, type_) for column, type_ in columns.items())
    source = Source(name, SourceKind.TABLE, "", (), fields, None, None, False, False, None, None, None, None, where)
    stage = make_stage(written, source, "a value")
    with report_mistakes(stage):
        value = read_value(parse_condition(written), stage)
    return rename_columns(value, {f"{name}.{column}": column for column in columns})


def make_stage(text: Text, source: Source, clause: str) -> QueryStage:
    """Where expressions over one source's columns are read."""
    if source.columns is None:
        raise InputError([Problem(f'the columns of source "{source.name}" are not known', text.origin)])
    environment = _environment(text, Declared({source.name: source}, {}, lambda *_: None, ()))
    rows = scan(source, source.columns, source.name)
    return QueryStage(environment, clause, Scope((rows.as_table(source.name),)), rows.relation)


@contextmanager
def report_mistakes(stage: QueryStage) -> Iterator[None]:
    """Raises InputError for all mistakes that were found at a stage."""
    try:
        yield
    except RecursionError:
        raise too_deep(stage.environment.text.origin) from None
    if stage.environment.report.errors:
        raise InputError(sorted(stage.environment.report.errors, key=_place))


def convert_view(
    name: str, texts: Mapping[str, ViewText], sources: Mapping[str, Source], functions: Mapping[str, PythonFunction]
) -> str:
    """The text of a view in Spark's dialect, with what PostgreSQL means by it.

    Raises InputError for mistakes, and UnsupportedSql for what has no such text or depends on types that are not known.
    """
    view = texts[name]
    if view.text.dialect is SqlDialect.SPARK:
        return view.sql
    reader = _Views(texts, sources, {fold(name): function for name, function in functions.items()})
    read = reader.read(name)
    if reader.problems:
        raise InputError(reader.problems)
    refused = read.query if isinstance(read, View) and isinstance(read.query, Refusal) else None
    if refused is not None:
        reader.read_types(view)
    if refused is not None and name not in reader.trees:
        raise UnsupportedSql(refused.operator, *refused.problems)
    try:
        return spark_query(reader.trees[name])
    except NotMaintained as reason:
        problems = refused.problems if refused is not None else ()
        raise UnsupportedSql(
            reason.operator,
            *(problems or (Problem(f'"{reason.operator}" is not translated', view.text.origin, reason.hint),)),
        ) from None
    except (KeyError, AttributeError, TypeError, ValueError, AssertionError) as error:
        raise describe_fault(error, view.text.origin) from error


def read_query(
    sql: str,
    sources: Mapping[str, Source],
    file: str = "query.sql",
    functions: Mapping[str, PythonFunction] | None = None,
    dialect: SqlDialect = SqlDialect.SPARK,
) -> Relation:
    """What one query over sources means. Raises InputError, or UnsupportedSql for SQL that is not maintained."""
    views, problems = read_views({"query": ViewText("query", sql, file, dialect)}, sources, functions or {})
    if problems:
        raise InputError(problems)
    query = views["query"].query
    if isinstance(query, Refusal):
        raise UnsupportedSql(query.operator, *query.problems)
    return query


def _environment(text: Text, declared: Declared, goes_on: bool = False) -> Environment:
    return Environment(text, declared, Report(goes_on=goes_on), Books(), read_rows, [])


@dataclass(slots=True)
class _Views:
    """Views by name as they get done. A view that reads another waits for it."""

    texts: Mapping[str, ViewText]
    sources: Mapping[str, Source]
    functions: Mapping[str, PythonFunction]
    in_full: bool = False
    done: dict[str, View | BrokenView] = field(default_factory=dict)
    trees: dict[str, exp.Query] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def read(self, name: str) -> View | BrokenView:
        if name not in self.done:
            self.open.append(name)
            self.done[name] = self._read_view(self.texts[name])
            self.open.pop()
        return self.done[name]

    def _read_view(self, view: ViewText) -> View | BrokenView:
        declared = Declared(self.sources, self.functions, self.named, tuple(self.texts))
        environment = replace(_environment(view.text, declared, goes_on=True), in_full=self.in_full)
        query = self._meaning(view, environment)
        report = environment.report
        self.problems.extend(sorted(report.errors, key=_place))
        if query is None or report.errors or report.blocked:
            return BrokenView()
        reads = environment.reads if isinstance(query, Relation) else self._find_mentioned(view, environment)
        order = find_order(self.trees[view.name], fields_of(query)) if isinstance(query, Relation) else ()
        return View(
            *(view.name, view.sql, query, tuple(reads), tuple(report.notes), environment.text.origin, order),
            dialect=view.text.dialect,
            dialect_number=view.text.dialect.number,
        )

    def read_types(self, view: ViewText) -> None:
        """Read what a refused view computes, as far as that goes, so that its tree knows the types."""

        def find_written(name: str) -> tuple[Text, exp.Query] | None:
            known = next((one for one in self.trees if fold(one) == fold(name)), None)
            return None if known is None else (self.texts[known].text, self.trees[known])

        declared = Declared(self.sources, self.functions, lambda *_: None, tuple(self.texts))
        with suppress(Exception):
            Answers(_environment(view.text, declared), find_written, {}).of(self.trees[view.name])

    def _find_mentioned(self, view: ViewText, environment: Environment) -> list[str]:
        """What a refused view reads: reading ended before all of it was seen."""
        tree = self.trees.get(view.name)
        if tree is None:
            return list(environment.reads)
        common = {fold(part.alias) for part in tree.find_all(exp.CTE)}
        named = set(map(fold, _name_tables(tree)))
        known = [name for name in environment.declared.table_names() if fold(name) in named - common]
        return list(dict.fromkeys((*environment.reads, *known)))

    def _meaning(self, view: ViewText, environment: Environment) -> Relation | Refusal | None:
        report = environment.report
        try:
            tree = self.trees[view.name] = parse_query(environment.text)
            rows = read_rows(tree, environment, None, Purpose.TABLE)
            made = _name_columns(rows, tree, environment)
            if not (report.errors or report.blocked or report.refusals):
                return finish(made, environment)
        except UnsupportedSql as refusal:
            report.refusals.append(refusal)
        except InputError as error:
            report.errors.extend(() if report.refusals else error.problems)
        except RecursionError:
            report.errors.extend(() if report.refusals else too_deep(environment.text.origin).problems)
        except Exception as error:  # whatever it is: other views can be read
            report.refusals.append(describe_fault(error, environment.text.origin))
        return _refusal(report)

    def named(self, name: str, environment: Environment, where: Location) -> NamedQuery | BrokenView | None:
        """The query of a view that another one reads."""
        known = next((view for view in self.texts if fold(view) == fold(name)), None)
        if known is None:
            return None
        if known in self.open:
            path = " -> ".join((*self.open[self.open.index(known) :], known))
            environment.report.error(
                f'view "{known}" reads itself: {path}', where, "views read sources and other views"
            )
            return BrokenView()
        view = self.read(known)
        if isinstance(view, BrokenView):
            return view
        if isinstance(view.query, Refusal):
            operator, inner = view.query.operator, view.query.problems[0]
            message = f'view "{known}" is not maintained incrementally: "{operator}"'
            raise UnsupportedSql(operator, Problem(message, where, f"see {inner.where}: {inner.hint}"))
        own = replace(environment, text=self.texts[known].text, report=Report(), reads=[], common_tables={})
        return NamedQuery(self.trees[known], own, tuple(field.name for field in fields_of(view.query)))


def _name_tables(tree: exp.Query) -> frozenset[str]:
    tables = list(tree.find_all(exp.Table))
    found = {f"{table.db}.{table.name}" if table.db else table.name for table in tables}
    return frozenset(found | {table.name for table in tables if fold(table.db) == PUBLIC})


def _refusal(report: Report) -> Refusal | None:
    """All refusals of a view as one, which has the name of the first."""
    if not report.refusals:
        return None
    problems = dict.fromkeys(problem for refusal in report.refusals for problem in refusal.problems)
    return Refusal(report.refusals[0].operator, tuple(sorted(problems, key=_place)))


def _place(problem: Problem) -> Location:
    return problem.where or Location("")


def _name_columns(rows: Rows, tree: exp.Query, environment: Environment) -> Relation:
    """The rows with the columns of the result, by their names."""
    nodes = tree.selects if len(tree.selects) == len(rows.columns) else [tree] * len(rows.columns)
    items = [
        SelectItem(column.name, _give_type(column.value, environment), node, column.origin_type)
        for column, node in zip(rows.columns, nodes, strict=True)
    ]
    report = environment.report
    if not items and rows.complete and not (report.errors or report.refusals):
        hint = "select a column, or a constant"
        report.refuse("clause: SELECT without columns", environment.at(tree), hint)
    made = outputs(_tell_apart(items, environment), environment)
    fields = [(field.name, Column(field.name, field.type)) for field in fields_of(rows.relation)]
    if [(output.name, output.expr) for output in made] == fields:
        return rows.relation
    return Projection(rows.relation, made)


def _give_type(value: Expr, environment: Environment) -> Expr:
    """NULL by itself is text, as in PostgreSQL."""
    is_text = value.type == NULL and environment.text.dialect is SqlDialect.POSTGRES
    return operators.convert(value, STRING) if is_text else value


def _tell_apart(items: list[SelectItem], environment: Environment) -> list[SelectItem]:
    """A view's columns have names of their own, whatever its query calls them."""
    found = list[SelectItem]()
    for item, name in zip(items, number_names([item.name for item in items]), strict=True):
        if name != item.name:
            message = f'column "{item.name}" occurs twice in the result: this one is called "{name}"'
            environment.report.note(message, environment.at(item.node), "give it another name with AS")
        found.append(replace(item, name=name))
    return found

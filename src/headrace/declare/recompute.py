"""Views whose contracts ask for `refresh: full` or `auto`: the query that every push evaluates from scratch.

A query that is understood keeps its meaning, and any engine can evaluate it. Of others only the columns are known, and
Spark evaluates the text. Refused is what would not give the same answer to the same rows: there is nothing to keep.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.declare.query.answer import WINDOWS, Answers
from headrace.declare.query.environment import Books, Declared, Environment
from headrace.declare.query.event_tables import REFUSED as EVENT_TABLES
from headrace.declare.query.items import number_names
from headrace.declare.query.known_functions import KNOWN, NONDETERMINISTIC, TABLE_FUNCTIONS
from headrace.declare.query.queries import read_query
from headrace.declare.query.report import Report, refuse
from headrace.declare.query.scope import fold
from headrace.declare.query.shown_order import find_order
from headrace.declare.query.spelling import unknown_to_spark
from headrace.declare.query.tables import name_table_function
from headrace.declare.query.text import Text, parse_query
from headrace.declare.query.written_out import WrittenView, write_out
from headrace.declare.sql import ViewText, convert_view, read_in_full
from headrace.meaning.json_functions import ONLY_OURS
from headrace.model.catalogue import Contract, PythonFunction, Refresh, Refusal, Source, View
from headrace.model.errors import InputError, Location, Problem, UnsupportedSql, nearest_name
from headrace.model.full_query import FullQuery
from headrace.model.names import full_name
from headrace.model.relation import Field, Relation, fields_of, scans_of, stamps_of
from headrace.model.types import INTERVALS, NULL

NOW = frozenset(("now", "current_timestamp", "current_date", "curdate", "unix_timestamp"))
ANY_ORDER = frozenset(
    """any_value approx_percentile approx_top_k array_agg collect_list collect_set count_min_sketch first first_value
    histogram_numeric last last_value listagg mode percentile_approx string_agg""".split()
)
"""Aggregates whose answer depends on the order in which rows come."""


ASK_FOR_FULL = "or set `refresh: full` in the contract"
SAY_TYPE = "if only its type is not known, give it with CAST(... AS TYPE)"


@dataclass(frozen=True, slots=True)
class InFull:
    """Views and contracts after it was seen which are asked for in full; and mistakes found on the way."""

    views: dict[str, View]
    contracts: dict[str, Contract]
    problems: tuple[Problem, ...]


def with_recomputed(
    views: Mapping[str, View],
    contracts: Mapping[str, Contract],
    texts: Mapping[str, ViewText],
    sources: Mapping[str, Source],
    functions: Mapping[str, PythonFunction],
) -> InFull:
    """Views that are asked for in full know how they are recomputed.

    One that other contracts have maintained, or that may be either, is there twice: in full under a name of its own. A
    contract that leaves the choice has both to choose from, if there are two.
    """
    reader = FullViewReader(texts, sources, {fold(name): function for name, function in functions.items()})
    found, problems = {name: reader.offer_full(view) for name, view in views.items()}, list[Problem]()
    known, asked = dict[str, FullQuery | Refusal](), dict(contracts)
    for view in dict.fromkeys(one.view for one in contracts.values() if one.refresh is not Refresh.INCREMENTAL):
        try:
            known |= {view: reader.recomputed(views[view])} if view in views else {}
        except InputError as error:
            problems += error.problems
    for view, recomputed in known.items():
        mine = {name: one for name, one in contracts.items() if one.view == view}
        full = {name for name, one in mine.items() if _is_full(one, views[view], recomputed)}
        both = {name for name, one in mine.items() if one.refresh is Refresh.AUTO and name not in full}
        both = both if isinstance(recomputed, FullQuery) else set()
        own = view if full == mine.keys() else full_name(view)
        if full or both:
            found[own] = _with_order(replace(found[view], name=own, recomputed=recomputed))
        asked |= {name: replace(mine[name], view=own) for name in full}
        asked |= {name: replace(mine[name], ways=(view, own)) for name in both}
    return InFull(found, asked, tuple(problems))


def _is_full(contract: Contract, view: View, recomputed: FullQuery | Refusal) -> bool:
    """Whether a contract asks for a view in full, or leaves the choice and there is no other way."""
    is_only_way = isinstance(view.query, Refusal) and isinstance(recomputed, FullQuery)
    return contract.refresh is Refresh.FULL or (contract.refresh is Refresh.AUTO and is_only_way)


def _with_order(view: View) -> View:
    if not isinstance(view.recomputed, FullQuery):
        return view
    tree = parse_query(Text(view.sql, view.declared_at, view.dialect))
    return replace(view, order=find_order(tree, view.recomputed.fields))


@dataclass(slots=True)
class FullViewReader:
    """Reads views as they are recomputed. Functions are by folded name."""

    texts: Mapping[str, ViewText]
    sources: Mapping[str, Source]
    functions: Mapping[str, PythonFunction]
    trees: dict[str, tuple[Text, exp.Query]] = field(default_factory=dict)

    def recomputed(self, view: View) -> FullQuery | Refusal:
        """Raises InputError for mistakes after what is not maintained, where nobody has looked yet."""
        declared = Declared(self.sources, self.functions, lambda *_: None, tuple(self.texts))
        if isinstance(view.query, Relation) and stamps_of(view.query):
            return _refuse_history(view)
        try:
            text, tree = self._parse_view(view.name)
        except UnsupportedSql as error:
            return Refusal(error.operator, error.problems)
        sql, reads = write_out(text, tree, lambda name: self._find_query(declared, name), Books())
        if isinstance(view.query, Relation):
            return FullQuery(sql, _find_sources(view.query), fields_of(view.query), view.query)
        meant = read_in_full(view.name, self.texts, self.sources, self.functions)
        if meant is not None:
            return FullQuery(sql, _find_sources(meant), fields_of(meant), meant)
        try:
            for inner, query in self._all(declared, text, tree):
                _refuse_open(inner, query, self.functions)
            _refuse_events(text, reads, self.sources)
            if not reads:
                _refuse_recursion(text, tree)
                _never("select without from", text.origin, "read the values from a source")
        except UnsupportedSql as error:
            return Refusal(error.operator, error.problems)
        try:
            fields = self._fields(declared, text, tree)
        except UnsupportedSql as error:
            message = f'"{error.operator}" is not recomputed either'
            return Refusal(error.operator, (Problem(message, error.problems[0].where, SAY_TYPE),))
        return FullQuery(sql, tuple(sorted(reads)), fields)

    def offer_full(self, view: View) -> View:
        """A refused view tells to ask for it in full, if that would be taken."""
        if not isinstance(view.query, Refusal):
            return view
        offer = self._offer(view)
        problems = tuple(replace(one, hint=f"{one.hint}; {offer}") for one in view.query.problems)
        return view if offer is None else replace(view, query=replace(view.query, problems=problems))

    def _offer(self, view: View) -> str | None:
        try:
            found = self.recomputed(view)
        except (InputError, RecursionError):
            return None
        if isinstance(found, FullQuery):
            return ASK_FOR_FULL
        of_unknown_type = found.operator.startswith("function: ") and found.problems[0].hint == SAY_TYPE
        return f"{ASK_FOR_FULL} and write CAST(... AS TYPE) around it" if of_unknown_type else None

    def _parse_view(self, name: str) -> tuple[Text, exp.Query]:
        if name not in self.trees:
            sql = convert_view(name, self.texts, self.sources, self.functions)
            text = Text(sql, Location(self.texts[name].file))
            self.trees[name] = text, parse_query(text)
        return self.trees[name]

    def _find_view(self, name: str) -> tuple[Text, exp.Query] | None:
        known = next((view for view in self.texts if fold(view) == fold(name)), None)
        return None if known is None else self._parse_view(known)

    def _find_query(self, declared: Declared, name: str) -> str | WrittenView | None:
        source = declared.source(name)
        if source is not None:
            return source.name
        found = self._find_view(name)
        return None if found is None else WrittenView(*found, self._number_columns(declared, *found))

    def _all(self, declared: Declared, text: Text, tree: exp.Query) -> Iterator[tuple[Text, exp.Query]]:
        """The query and those of all views that it reads."""
        yield text, tree
        for table in tree.find_all(exp.Table):
            found = self._find_query(declared, table.name) if isinstance(table.this, exp.Identifier) else None
            if found is not None and not isinstance(found, str) and found.tree is not tree:
                yield from self._all(declared, found.text, found.tree)

    def _fields(self, declared: Declared, text: Text, tree: exp.Query) -> tuple[Field, ...]:
        environment = Environment(text, declared, Report(), Books(), read_query, [])
        columns = Answers(environment, self._find_view, {}).of(tree)
        for column in columns:
            if column.value.type in INTERVALS:
                refuse("interval column", text.at(tree))
            elif column.value.type == NULL and not environment.report.errors:
                message = f'the type of column "{column.name}" is not known'
                environment.report.error(message, text.at(tree), "CAST(NULL AS ...)")
        if environment.report.errors:
            raise InputError(environment.report.errors)
        if not columns:
            refuse("clause: SELECT without columns", text.at(tree), "select a column, or a constant")
        names = number_names([column.name for column in columns])
        return tuple(Field(name, column.value.type) for name, column in zip(names, columns, strict=True))

    def _number_columns(self, declared: Declared, text: Text, tree: exp.Query) -> tuple[str, ...]:
        """The names of a view's columns where its query gives two of them one name; none where it does not, or where
        they are not known, so that nobody names them.
        """
        environment = Environment(text, declared, Report(), Books(), read_query, [])
        with suppress(UnsupportedSql):
            names = [column.name for column in Answers(environment, self._find_view, {}).of(tree)]
            numbered = number_names(names)
            return tuple(numbered) if numbered != names else ()
        return ()


def _refuse_history(view: View) -> Refusal:
    message = f'view "{view.name}" is not recomputed: it depends on when rows came, which its sources do not tell'
    problem = Problem(message, view.declared_at, "leave out `refresh`, or set it to `incremental`")
    return Refusal("history of a source", (problem,))


def _find_sources(query: Relation) -> tuple[str, ...]:
    return tuple(sorted({scan.source for scan in scans_of(query)}))


def _refuse_open(text: Text, tree: exp.Query, functions: Mapping[str, PythonFunction]) -> None:
    """Refuses what leaves the answer open, and what other programs would have to say."""
    for node in tree.walk():
        unknown = unknown_to_spark(node)
        if unknown is not None:
            place = node if not isinstance(node, exp.Lock) else tree
            _never(unknown.operator, text.at(place), unknown.hint)
        match node:
            case exp.CurrentDate() | exp.CurrentTimestamp() | exp.CurrentTime():
                _never("now()", text.at(node), "only conditions of WHERE may depend on the time, and without `full`")
            case exp.Lateral():
                _never("lateral view" if node.args.get("view") else "lateral join", text.at(node))
            case exp.Pivot():
                _never("unpivot" if node.args.get("unpivot") else "pivot", text.at(node))
            case exp.TableSample():
                _never("table sample", text.at(node), "filter by a column: pmod(id, 10) = 0")
            case exp.Version():
                _never("time travel", text.at(node), "a view reads what its sources hold now")
            case exp.Values():
                _never("values", text.at(node), "keep the rows in a source")
            case exp.Table() if not isinstance(node.this, exp.Identifier):
                _never(f"table function: {name_table_function(node)}", text.at(node), "read from sources and views")
            case exp.Limit() | exp.Offset() if not _is_ordered(node.parent):
                _never("limit without order by", text.at(node), "add ORDER BY")
            case exp.Any() | exp.All() if not isinstance(node.parent, exp.Like | exp.ILike):
                _never("expression: ANY or ALL", text.at(node), "use IN or EXISTS")
            case exp.Group() if sum(fold(call.name) in WINDOWS for call in node.find_all(exp.Anonymous)) > 1:
                _never("several time windows", text.at(node), "group in one query for each window")
            case exp.Anonymous():
                _refuse_function(text, node, functions)


def _refuse_recursion(text: Text, tree: exp.Query) -> None:
    """A recursive query from constants alone is refused for what it is."""
    recursive = next((with_ for with_ in tree.find_all(exp.With) if with_.args.get("recursive")), None)
    if recursive is not None:
        _never("recursive query", text.at(recursive), "let it begin with rows of a source")


def _refuse_events(text: Text, reads: Collection[str], sources: Mapping[str, Source]) -> None:
    stream = next((name for name in sorted(reads) if sources[name].joins_as_of_event), None)
    if stream is not None and len(reads) > 1:
        hint = f'stream "{stream}" joins tables as of its events, and sources hold only what is there now'
        _never(EVENT_TABLES, text.origin, hint)


def _is_ordered(query: exp.Expr | None) -> bool:
    order = query.args.get("order") if query is not None else None
    return order is not None and any(part.find(exp.Column) or part.this.is_int for part in order.expressions)


def _refuse_function(text: Text, node: exp.Anonymous, functions: Mapping[str, PythonFunction]) -> None:
    name, where = node.name.lower(), text.at(node)
    if name in functions:
        _never(f"function: {name}", where, "only maintained SQL can call functions declared in Python")
    if name in TABLE_FUNCTIONS:
        _never(f"table function: {name}", where)
    if name in NOW and (name != "unix_timestamp" or not node.expressions):
        _never("now()", where, "only conditions of WHERE may depend on the time, and without `full`")
    if name in NONDETERMINISTIC:
        _never(f"nondeterministic function: {name}", where, "a view may depend only on its sources")
    if name in ANY_ORDER and node.find_ancestor(exp.Window, exp.Query).__class__ is not exp.Window:
        _never(f"aggregate: {name}", where, "its answer depends on the order of the rows")
    if name in ONLY_OURS:
        _never(
            "expression: JSON of PostgreSQL", where, "Spark reads and writes JSON otherwise: let the view be maintained"
        )
    if name not in KNOWN:
        raise InputError([Problem(f'function "{name}" does not exist', where, nearest_name(name, KNOWN))])


def _never(operator: str, where: Location, hint: str | None = None) -> None:
    raise UnsupportedSql(operator, Problem(f'"{operator}" is not recomputed either', where, hint))

"""YAML text to a WrittenDocument: plain values with the line and column of every key and value.

The tree is composed by ruamel.yaml and walked here, because only the tree knows places, and because a key that is
written twice is a mistake to report, not a value to lose. Nothing in a text can make this fail other than by a Problem.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, StringMark, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from headrace.declare.document import Path, WrittenDocument
from headrace.model.errors import Location, Problem

DEEPEST = 20
"""Levels of nesting; a project file needs seven."""

MOST_VALUES = 200_000
"""Values after aliases are expanded: ten short lines of aliases can stand for a billion values."""

_TAG = "tag:yaml.org,2002:"


def read_yaml(text: str, file: str) -> tuple[WrittenDocument | None, tuple[Problem, ...]]:
    """The document, and what is wrong with the text. None when nothing can be made of it."""
    start = Location(file)
    try:
        root = _compose(text)
    except MarkedYAMLError as error:
        return None, (_syntax_problem(error, text, file),)
    except (YAMLError, RecursionError, ValueError) as error:
        return None, (_unreadable(error, text, file),)
    if root is None:
        return None, (Problem(f"{file} is empty", start, "`headrace init DIR` writes a project to start from"),)
    if not isinstance(root, MappingNode):
        return None, (Problem(f"{file} must hold fields, not a list or text", start, "begin with `project: NAME`"),)
    walk = _Walk(file)
    value = walk.mapping(root, (), 0)
    if walk.oversized is not None:
        return None, (walk.oversized,)
    return WrittenDocument(value, walk.keys, walk.values, start), tuple(walk.problems)


def _compose(text: str) -> Node | None:
    with warnings.catch_warnings():
        # A name (`&name`) may be given again: an alias stands for the last one before it.
        warnings.simplefilter("ignore", ReusedAnchorWarning)
        root: Node | None = YAML(typ="safe", pure=True).compose(text)
    return root


def yaml_of(value: Mapping[str, object]) -> str:
    """Fields as text that `read_yaml` reads again, in the order given."""
    writer, text = YAML(typ="safe", pure=True), io.StringIO()
    writer.default_flow_style = None
    writer.width = 120
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.dump(dict(value), text)
    return text.getvalue()


class _Walk:
    """Turns nodes into values, noting places and mistakes on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.keys: dict[Path, Location] = {}
        self.values: dict[Path, Location] = {}
        self.problems: dict[Problem, None] = {}
        self.count = 0
        self.oversized: Problem | None = None

    def value(self, node: Node, path: Path, depth: int) -> object:
        self.count += 1
        if self.oversized is not None:
            return None
        if depth > DEEPEST or self.count > MOST_VALUES:
            self._refuse_size(node, depth)
            return None
        match node:
            case MappingNode():
                return self.mapping(node, path, depth)
            case SequenceNode():
                return self.sequence(node, path, depth)
            case _:
                return self.scalar(node)

    def mapping(self, node: MappingNode, path: Path, depth: int) -> dict[str, object]:
        result: dict[str, object] = {}
        taken_over: list[Node] = []
        for key, value in self._join_pairs(node.value):
            if not isinstance(key, ScalarNode):
                self._add("a key must be a word", self._place(key), "write `name: value`")
            elif key.value == "<<" and key.style is None:
                taken_over.append(value)
            elif key.value in result:
                first = self.keys[*path, key.value].line
                self._add(
                    f'"{key.value}" is written twice', self._place(key), f"the first is on line {first}; keep one"
                )
            else:
                result[key.value] = self.entry(key, value, (*path, key.value), depth)
        for other in taken_over:
            result = {**self.take_over(other, path, depth), **result}
        return result

    def entry(self, key: ScalarNode, value: Node, path: Path, depth: int) -> object:
        self.keys[path] = self._place(key)
        nothing = isinstance(value, ScalarNode) and value.value == "" and value.style is None
        # YAML puts "nothing" at the next word, which may be lines below.
        self.values[path] = self._place(key if nothing else value)
        return self.value(value, path, depth + 1)

    def take_over(self, node: Node, path: Path, depth: int) -> dict[str, object]:
        """Fields taken over with `<<: *name`: what is written beside them wins."""
        if self.oversized is not None:
            return {}
        if depth > DEEPEST:
            self._refuse_size(node, depth)
            return {}
        if not isinstance(node, MappingNode):
            hint = "write `<<: *name`, with `&name` before the mapping meant"
            self._add("`<<` takes a mapping", self._place(node), hint)
            return {}
        inner = _Walk(self.file)
        inner.count = self.count
        fields = inner.mapping(node, path, depth + 1)
        self.count = inner.count
        self.problems |= inner.problems
        self.oversized = self.oversized or inner.oversized
        self.keys = {**inner.keys, **self.keys}
        self.values = {**inner.values, **self.values}
        return fields

    def sequence(self, node: SequenceNode, path: Path, depth: int) -> list[object]:
        result: list[object] = []
        for position, item in enumerate(self._join_items(node.value)):
            self.values[*path, position] = self._place(item)
            result.append(self.value(item, (*path, position), depth + 1))
        return result

    def _join_pairs(self, pairs: list[tuple[Node, Node]]) -> Iterator[tuple[Node, Node]]:
        """`{total: numeric(12,2)}` is two pairs to YAML: they are told to be a mistake, and read as what was meant."""
        rest = list(pairs)
        while rest:
            key, value = rest.pop(0)
            if rest and _is_cut(value, rest[0][0]) and rest[0][1].value == "":
                value = self._join(value, rest.pop(0)[0])
            yield key, value

    def _join_items(self, items: list[Node]) -> Iterator[Node]:
        rest = list(items)
        while rest:
            item = rest.pop(0)
            yield self._join(item, rest.pop(0)) if rest and _is_cut(item, rest[0]) else item

    def _join(self, start: Node, end: Node) -> Node:
        meant = f"{start.value},{end.value}"
        hint = f'put it in quotes: "{meant}"'
        self._add(
            f"{meant} is cut off at its comma: within braces and brackets, a comma ends a value",
            self._place(start),
            hint,
        )
        return ScalarNode(f"{_TAG}str", meant, start.start_mark, end.end_mark)

    def scalar(self, node: Node) -> object:
        text = str(node.value)
        match str(node.tag).removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return text.casefold() == "true"
            case "int":
                return _integer(text)
            case "float":
                return _fraction(text)
            case "str" | "timestamp" | "value":
                return self.text(node, text)
            case _:
                self._add(f'tag "{node.tag}" is not understood', self._place(node), "leave the tag out")
                return None

    def text(self, node: Node, text: str) -> str:
        if text.isascii() or _is_encodable(text):
            return text
        self._add("a character that text may not hold", self._place(node), r"\ud800 to \udfff are halves of characters")
        return ""

    def _place(self, node: Node) -> Location:
        mark: StringMark = node.start_mark
        return Location(self.file, mark.line + 1, mark.column + 1)

    def _add(self, message: str, where: Location, hint: str) -> None:
        self.problems[Problem(message, where, hint)] = None

    def _refuse_size(self, node: Node, depth: int) -> None:
        what = "the text is nested too deeply" if depth > DEEPEST else "the text is too large"
        hint = "an alias (`*name`) may stand for more than it seems"
        self.oversized = self.oversized or Problem(what, self._place(node), hint)


def _is_cut(start: Node, end: Node) -> bool:
    """Whether two words in a row are `numeric(12` and `2)`, neither of them in quotes."""
    if not (isinstance(start, ScalarNode) and isinstance(end, ScalarNode)) or start.style or end.style:
        return False
    return bool(re.fullmatch(r"\w+ ?\( ?\d+ ?", start.value) and re.fullmatch(r"\d+ ?\)[\w \[\]>]*", end.value))


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fraction(text: str) -> object:
    try:
        return float(re.sub(r"\.(inf|nan)", r"\1", text.replace("_", "").casefold()))
    except ValueError:
        return text


def _integer(text: str) -> object:
    """A whole number; what Python does not read as one (thousands of digits) stays text."""
    digits = text.replace("_", "")
    sign, number = (-1, digits[1:]) if digits.startswith("-") else (1, digits.removeprefix("+"))
    prefix = number[:2].casefold()
    try:
        return sign * (int(number, 0) if prefix in ("0x", "0o", "0b") else int(number))
    except ValueError:
        return text


_STORIES = (
    (r"'\\t'", "a tab where only spaces may indent", "indent with spaces"),
    (r"mapping values are not", 'a ":" where no field can begin', 'quote a value that holds ": ", or indent as above'),
    (r"undefined alias", "an alias (`*name`) of nothing", "write `&name` before; quote a value that begins with *"),
    (r"another document", "a second document", "a project is one document: remove the line `---`"),
    (r"quoted scalar", "quotes that are not closed", "close the quotes"),
    (r"expected ',' or '\]'", "a list that is not closed", "close the list with ], or put a comma between its values"),
    (r"expected ',' or '}'", "braces that are not closed", "close with }, or put a comma between the fields"),
    (r"expected <block end>", "a line that does not fit the indentation above it", "indent like the field before it"),
    (r"could not find expected ':'", "a line without a colon", "write `name: value`, with a space after the colon"),
    (r"cannot start any token", "a character that no value begins with", "put the value in quotes"),
)
"""What ruamel.yaml says, what we say, and what one can do."""


def _syntax_problem(error: MarkedYAMLError, text: str, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark is not None else (0, 0)
    told = ", ".join(part for part in (error.problem, error.context) if part)
    story, hint = next(((ours, do) for pattern, ours, do in _STORIES if re.search(pattern, told)), (told, None))
    opened = error.context_mark
    if opened is not None and opened.line != line:
        story += f" (begun on line {opened.line + 1})"
    lines = text.splitlines()
    if line < len(lines) and re.search(r"[:,\[] *\$\{", lines[line]):
        hint = 'put "${NAME}" in quotes'
    return Problem(f"not valid YAML: {story}", Location(file, line + 1, column + 1), hint)


def _unreadable(error: Exception, text: str, file: str) -> Problem:
    if isinstance(error, RecursionError):
        return Problem("the text is nested too deeply", Location(file), "a project file needs seven levels")
    position = getattr(error, "position", None)
    if not isinstance(position, int):
        return Problem(f"not valid YAML: {error}", Location(file))
    before = text[:position].splitlines() or [""]
    where = Location(file, len(before), len(before[-1]) + 1)
    return Problem("not valid YAML: a character that text may not hold", where, "save the file as plain UTF-8 text")

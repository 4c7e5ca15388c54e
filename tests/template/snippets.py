"""One construct each; jinja2 says what the answer is, also when that is an error."""

from snippets_expressions import EXPRESSIONS
from snippets_filters import FILTERS
from snippets_statements import LAYOUT, STATEMENTS

VARIABLES = {
    "t": True,
    "f": False,
    "n": None,
    "i": 42,
    "neg": -7,
    "x": 2.5,
    "s": "Hello, World",
    "u": "žluťoučký kůň 日本語 👩‍👧 ß",
    "empty": "",
    "nums": [3, 1, 2, 10, -5],
    "words": ["pear", "Apple", "fig", "apple"],
    "mixed": [1, "a", None, True, 2.5, [1], {"k": "v"}],
    "d": {"b": 2, "a": 1, "items": "shadow", "Z": [1, 2], "nested": {"deep": {"er": "value"}}},
    "users": [
        {"name": "Ann", "age": 31, "tags": ["x"], "ok": True},
        {"name": "bob", "age": 25, "tags": [], "ok": False},
        {"name": "Cy", "age": 31, "ok": True},
    ],
    "quote": "it's \"quoted\" \\ \n\t\x07é",
    "html": "<a href='x'>&\"</a>",
    "lines": "one\n\n two\r\nthree\n",
    "spaced": "  a  b c  ",
}

# Where this interpreter says no although jinja2 answers: what it would print differs from run to run, or needs integers
# of any length, or no chat template needs it.
REFUSED = r"""
2 ** 63
9223372036854775807 + 1
(-9223372036854775807 - 1) // -1
'99999999999999999999999'|int
s.upper
nums|map('upper')
lipsum(1)
nums|random
html|urlize
html|striptags
'a b'|urlencode
s|wordwrap(5)
d|xmlattr
1000|filesizeformat
d|pprint
""".strip().split("\n")


def cases():
    for text in STATEMENTS.strip("\n").split("\n"):
        yield text
    yield from LAYOUT
    for block in (EXPRESSIONS, FILTERS):
        for text in block.strip("\n").split("\n"):
            yield "{{ " + text + " }}"

"""Random expressions and statements: mostly well-typed, sometimes not, so that errors are compared too."""

import snippets

NAMES = list(snippets.VARIABLES) + ["nope"]
TEXT_METHODS = ["upper()", "lower()", "title()", "strip()", "split()", "split('o')", "replace('l', 'é')", "startswith('H')",
                "find('o')", "count('l')", "splitlines()", "isdigit()", "zfill(8)", "center(9)", "rsplit(' ', 1)", "partition('l')",
                "capitalize()", "swapcase()", "endswith(('d', 'x'))", "rfind('l', 2)", "lstrip(' H')", "join(words)"]  # fmt: skip
FILTERS = ["upper", "lower", "trim", "length", "first", "last", "list", "string", "int", "float", "abs", "round", "sort", "reverse",
           "unique", "sum", "min", "max", "join('-')", "default('d')", "default('d', true)", "tojson", "title", "capitalize",
           "replace('a', 'b')", "map('string')", "select", "reject", "select('string')", "dictsort", "items", "batch(2)", "slice(2)",
           "indent(2)", "wordcount", "escape", "safe", "truncate(9)", "map(attribute='name')", "selectattr('ok')", "round(1)",
           "sort(reverse=true)", "map('upper')", "tojson(indent=1)", "groupby('age')", "attr('a')", "center(10)", "e", "count",
           "join", "int(7)", "list|last", "list|length"]  # fmt: skip
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "odd",
         "even", "divisibleby 3", "in nums", "eq 1", "true", "false", "lower", "upper", "sameas none", "callable"]  # fmt: skip
LITERALS = ["0", "1", "-3", "7", "2.5", "0.1", "1e3", "'a'", "'Hello'", "''", "' x y '", "'é日'", "true", "false", "none", "[]", "{}",
            "[1, 'b', none]", "{'k': 1, 'name': 'z'}", "(1, 2)", "range(4)", "()"]  # fmt: skip
KEYS = ["0", "1", "2.5", "'a'", "''", "true", "none", "(1, 2)"]


def expression(rng, depth=0):
    if depth > 4 or rng.random() < 0.2:
        return rng.choice(LITERALS) if rng.random() < 0.5 else rng.choice(NAMES)
    sub = lambda: expression(rng, depth + 1)  # noqa: E731
    kind = rng.randrange(15)
    if kind <= 1:
        return f"({sub()} {rng.choice(['+', '-', '*', '/', '//', '%', '**', '~', '~', '+'])} {small(rng)})"
    if kind == 2:
        return f"({sub()} {rng.choice(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {sub()})"
    if kind == 3:
        return f"({sub()} {rng.choice(['and', 'or'])} {sub()})"
    if kind == 4:
        return f"({rng.choice(['not ', '-', '+'])}{sub()})"
    if kind <= 7:
        return f"({sub()}|{rng.choice(FILTERS)})"
    if kind == 8:
        return f"({sub()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)})"
    if kind == 9:
        return f"({sub()}).{rng.choice(TEXT_METHODS)}"
    if kind == 10:
        # jinja2 evaluates constants when it compiles, where slicing what cannot be sliced is undefined and not an error:
        # only variables are sliced here.
        if rng.random() < 0.5:
            return f"{rng.choice(NAMES)}[{rng.choice(['1:', ':-1', '::-1', '::2', '1:3'])}]"
        return f"({sub()})[{rng.choice(['0', '-1', sub(), repr('name')])}]"
    if kind == 11:
        return f"({sub()} if {sub()} else {sub()})" if rng.random() < 0.8 else f"({sub()} if {sub()})"
    if kind == 12:
        return f"[{sub()}, {sub()}]" if rng.random() < 0.5 else f"{{'name': {sub()}, {rng.choice(KEYS)}: {sub()}}}"
    if kind == 13:
        return f"({sub()}).{rng.choice(['a', 'name', 'items()', 'keys()', 'get(' + repr('a') + ')', 'values()', 'count(1)', 'nope'])}"
    return f"('%s|%5s|%r' % ({sub()}, {sub()}, {sub()}))"


def small(rng):
    return rng.choice(["1", "2", "3", "-2", "2.5", "'b'", "[1]", "none", "true", "i", "s", "nope", "(1, 2)"])


def condition(rng):
    """An expression for statements: seldom an error, so that most templates render to their end."""
    a, b = rng.choice(NAMES), rng.choice(NAMES + LITERALS)
    return rng.choice([a, b, f"{a} ~ {b}", f"{a} == {b}", f"{a} is defined", f"not {a}", f"{a}|default({b})", f"{a}|string|length",
                       f"{a} or {b}", f"({a} if {b} else 'no')", f"[{a}, {b}]", "v", "w|string|upper",
                       expression(rng, 4)])  # fmt: skip


def statement(rng, depth=0):
    if depth > 3 or rng.random() < 0.25:
        return rng.choice([f"{{{{ {condition(rng)} }}}}", "{{ loop is defined }}", " text ", "\n", "  \n", "{{ x }}", "{{ v }}{{ w }}"])
    body = lambda: "".join(statement(rng, depth + 1) for _ in range(rng.randrange(1, 4)))  # noqa: E731
    dash = lambda: rng.choice(["", "", "-", "+"])  # noqa: E731
    name = rng.choice(["v", "w", "x", "i"])
    kind = rng.randrange(9)
    if kind <= 1:
        jump = rng.choice(["", "", "{% if loop.index > 2 %}{% break %}{% endif %}", "{% if loop.first %}{% continue %}{% endif %}"])
        test = rng.choice(["", "", f" if {name} is defined", f" if {name}"])
        return f"{{%{dash()} for {name} in {rng.choice(['nums', 'words', 'range(3)', 'd', 'users', 's[:3]', 'nope', 'v'])}{test} %}}{body()}{jump}{body()}{{%{dash()} else %}}{body()}{{% endfor {dash()}%}}"
    if kind <= 3:
        middle = f"{{% elif {condition(rng)} %}}{body()}" if rng.random() < 0.4 else ""
        other = f"{{%{dash()} else %}}{body()}" if rng.random() < 0.5 else ""
        return f"{{%{dash()} if {condition(rng)} {dash()}%}}{body()}{middle}{other}{{% endif %}}"
    if kind == 4:
        return f"{{% set {name} = {condition(rng)} %}}"
    if kind == 5:
        return f"{{% set {name} %}}{body()}{{%{dash()} endset %}}"
    if kind == 6:
        return f"{{% macro m{depth}({name}, y=2) %}}{body()}{{% endmacro %}}{{{{ m{depth}({rng.choice(['1', 's', 'v, w', 'y=3', ''])}) }}}}"
    if kind == 7:
        return f"{{% set ns = namespace(c=1) %}}{body()}{{% set ns.c = ns.c ~ {name} %}}{{{{ ns.c }}}}"
    return f"{{% filter {rng.choice(['upper', 'trim', 'replace(' + repr('e') + ', ' + repr('E') + ')'])} %}}{body()}{{% endfilter %}}"


def template(rng):
    return "".join(statement(rng) for _ in range(rng.randrange(1, 5)))

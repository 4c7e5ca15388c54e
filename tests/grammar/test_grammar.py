"""Grammars, schemas and regular expressions against other judges: jsonschema, re, and a recogniser that tries everything.
Needs the built tests/grammar/accepts (WEIGHTD_BUILD: the build directory)."""

import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import time

import jsonschema
import pytest

PROGRAM = pathlib.Path(os.environ.get("WEIGHTD_BUILD", "build")) / "tests/grammar/accepts"


@pytest.fixture(scope="module")
def accepts():
    process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(kind, source, texts=(), **more):
        process.stdin.write(json.dumps({"kind": kind, "source": source, "texts": list(texts), **more}) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield ask
    process.stdin.close()
    assert process.wait() == 0


# --- regular expressions --------------------------------------------------------------------------


def random_regex(rng, depth):
    kind = rng.randrange(9 if depth else 5)
    if kind == 0:
        return rng.choice("ab-")
    if kind == 1:
        return rng.choice([".", r"\d", r"\w", r"\W", r"\S", "[ab]", "[^a]", "[a-c1]", r"[^\w]", "é", r"\x61", r"\u0062"])
    if kind < 5:
        return rng.choice("ab1")
    inner = random_regex(rng, depth - 1)
    if kind == 5:
        return f"(?:{inner})" + rng.choice(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?"])
    if kind == 6:
        return f"({inner}|{random_regex(rng, depth - 1)})"
    return inner + random_regex(rng, depth - 1)


def test_regular_expressions_match_what_python_matches(accepts):
    rng = random.Random(7)
    texts = ["".join(t) for n in range(5) for t in itertools.product("ab1-", repeat=n)] + ["é", "aé", "\n", "a\n", " "]
    complete = 0
    for _ in range(400):
        source = random_regex(rng, 4)
        got = accepts("regex", source, texts)
        if "error" in got:
            assert "repetition" in got["error"], (source, got)
            continue
        compiled = re.compile(source, re.ASCII)
        for text, verdict in zip(texts, got["verdicts"], strict=True):
            assert (verdict == 2) == bool(compiled.fullmatch(text)), (source, text, verdict)
            complete += verdict == 2
    assert complete > 2000


def test_every_beginning_of_a_match_is_one(accepts):
    rng = random.Random(8)
    texts = ["".join(t) for n in range(5) for t in itertools.product("ab1-", repeat=n)]
    for _ in range(200):
        got = accepts("regex", random_regex(rng, 4), texts)
        if "error" in got:
            continue
        verdicts = dict(zip(texts, got["verdicts"], strict=True))
        for text, verdict in verdicts.items():
            if verdict == 2:
                assert all(verdicts[text[:i]] > 0 for i in range(len(text)))


@pytest.mark.parametrize(
    "source, words",
    [
        (r"(a)\1", "back"), (r"\bword", "boundary"), ("(?=a)b", "ahead"), ("(?<!a)b", "behind"), ("(?i)a", "flags"),
        ("a{2,1}", "least"), ("a**", "repetition of a repetition"), ("(a", "')'"), ("a)", "')'"), ("[a", "']'"),
        ("a^b", "^"), (r"\q", "escape"), ("[b-a]", "range"), ("x{", "repetition"), ("(" * 500 + ")" * 500, "nested"),
        ("(?:(?:a{1000}){1000}){1000}b{1000000000}", "too large"), ("[]", "no text"),
    ],
)
def test_what_no_automaton_can_do_is_refused(accepts, source, words):
    assert words in accepts("regex", source)["error"]


# --- JSON schemas -------------------------------------------------------------------------------


def random_schema(rng, depth):
    kind = rng.randrange(12 if depth else 7)
    if kind == 0:
        return {"type": rng.choice(["null", "boolean", "integer", "number", "string", ["string", "null"], ["integer", "boolean"]])}
    if kind == 1:
        return {"enum": rng.sample([1, "a", None, True, 2.5, "é\"", [1], {"a": 1}], rng.randint(1, 4))}
    if kind == 2:
        return {"const": rng.choice([1, "b", None, False, -3])}
    if kind == 3:
        low = rng.randint(-120, 120)
        return {"type": rng.choice(["integer", "number"]), rng.choice(["minimum", "exclusiveMinimum"]): low,
                rng.choice(["maximum", "exclusiveMaximum"]): low + rng.randint(2, 150)}
    if kind == 4:
        low = rng.randint(0, 3)
        return {"type": "string", "minLength": low, "maxLength": low + rng.randint(0, 3)}
    if kind == 5:
        return {"type": "string", "pattern": rng.choice(["^a+$", "b", "^[a-c]{2}", "a|^b$", '^"+$', "^\\\\d{1,2}$"])}
    if kind == 6:
        return {"type": "integer", "minimum": rng.randint(-20, 2000)}
    if kind == 7:
        return {"anyOf": [random_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]}
    if kind == 8:
        low = rng.randint(0, 2)
        out = {"type": "array", "items": random_schema(rng, depth - 1), "minItems": low}
        if rng.random() < 0.5:
            out["maxItems"] = low + rng.randint(0, 2)
        return out
    if kind == 9:
        return {"type": "array", "prefixItems": [random_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))],
                "items": rng.choice([False, {"type": "integer"}]), "minItems": rng.randint(0, 1)}
    names = rng.sample(["a", "ab", "b", "cé", 'q"'], rng.randint(1, 4))
    return {"type": "object", "properties": {n: random_schema(rng, depth - 1) for n in names},
            "required": rng.sample(names, rng.randint(0, len(names))),
            "additionalProperties": rng.choice([False, False, True, {"type": "integer"}])}


def random_value(rng, depth):
    kind = rng.randrange(8 if depth else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.randint(-150, 300)
    if kind == 2:
        return rng.choice([0.5, -2.25, 17.125, 100.5, -0.5, 2.5])
    if kind < 6:
        return rng.choice(["", "a", "b", "ab", "aaa", "é\"", "c\n", '"', "12", "abcab"])
    if kind == 6:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {n: random_value(rng, depth - 1) for n in rng.sample(["a", "ab", "b", "cé", 'q"', "z", "abc"], rng.randrange(4))}


def fitting(rng, schema, depth=4):
    """A value that is likely to satisfy the schema, members in the order of the properties."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return fitting(rng, rng.choice(schema["anyOf"]), depth)
    if schema.get("type") == "object":
        out = {}
        for name, inner in schema["properties"].items():
            if name in schema["required"] or rng.random() < 0.5:
                out[name] = fitting(rng, inner, depth - 1)
        if schema["additionalProperties"] is not False and rng.random() < 0.5:
            out[rng.choice(["z", "abc", "ac", ""])] = 5
        return out
    if schema.get("type") == "array":
        out = [fitting(rng, s, depth - 1) for s in schema.get("prefixItems", [])]
        if schema.get("items"):
            out += [fitting(rng, schema["items"], depth - 1) for _ in range(rng.randrange(4))]
        return out
    if schema.get("type") in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -5))
        return rng.choice([low + rng.randrange(0, 160), low, low + 1, low + rng.choice([0.5, 1.25, 70.75])])
    return random_value(rng, 0)


def test_schemas_allow_what_jsonschema_allows_and_nothing_else(accepts):
    rng = random.Random(9)
    n_valid = n_invalid = 0
    for _ in range(700):
        schema = random_schema(rng, 3)
        judge = jsonschema.Draft202012Validator(schema)
        values = [random_value(rng, 2) for _ in range(30)] + [fitting(rng, schema) for _ in range(40)]
        texts = [json.dumps(v, ensure_ascii=False, separators=rng.choice([(",", ":"), (", ", ": ")])) for v in values]
        got = accepts("schema", json.dumps(schema), texts)
        assert "error" not in got, (schema, got)
        for value, text, verdict in zip(values, texts, got["verdicts"], strict=True):
            valid = judge.is_valid(value)
            if verdict == 2:
                assert valid, (schema, text)
                n_valid += 1
            elif valid and in_order(schema, value):
                raise AssertionError((schema, text, verdict))
            n_invalid += not valid
    assert n_valid > 3000 and n_invalid > 3000


def in_order(schema, value):
    """Whether the members of all objects come as the grammar has them; where a schema leaves the way open, unknown."""
    if "anyOf" in schema or "enum" in schema or "const" in schema:
        return "anyOf" not in schema and not isinstance(value, (float, dict, list))  # those are written compactly
    if isinstance(value, dict):
        names = list(schema.get("properties", {}))
        known = [n for n in value if n in names]
        others = [n for n in value if n not in names]
        return (list(value) == known + others and known == [n for n in names if n in value]
                and not any('"' in n for n in others)
                and all(in_order(schema["properties"][n], value[n]) for n in known)
                and all(not isinstance(value[n], float) for n in others))
    if isinstance(value, list):
        prefix = schema.get("prefixItems", [])
        inner = prefix + [schema.get("items") or {}] * (len(value) - len(prefix))
        return all(in_order(s, v) for s, v in zip(inner, value))
    if isinstance(value, float) and schema.get("type") == "integer":
        return False  # 2.0 is an integer to jsonschema; it is written as 2 here
    return True


RECURSIVE = {
    "$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
                       "required": ["v", "kids"], "additionalProperties": False}},
    "$ref": "#/$defs/tree",
}


def test_schemas_may_be_recursive(accepts):
    good = '{"v":1,"kids":[{"v":2,"kids":[]},{"v":3,"kids":[{"v":4,"kids":[]}]}]}'
    got = accepts("schema", json.dumps(RECURSIVE), [good, good.replace('"v":4,', ""), good[:-1], "{}"])
    assert got["verdicts"] == [2, 0, 1, 0]


def test_formats_are_dates_times_and_ids(accepts):
    cases = {
        "date": (["2024-02-28", "1999-12-31", "2024-04-30"], ["2024-02-30", "2024-13-01", "24-01-01", "2024-04-31"]),
        "date-time": (["2024-02-28T23:59:59Z", "2024-01-01T00:00:00.5+01:00"], ["2024-02-28", "2024-02-28T24:00:00Z"]),
        "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000"]),
        "time": (["12:00:00Z"], ["12:00"]),
        "ipv4": (["1.2.3.255"], ["1.2.3.256", "01.2.3.4"]),
    }
    for name, (good, bad) in cases.items():
        got = accepts("schema", json.dumps({"type": "string", "format": name}), [f'"{t}"' for t in good + bad])
        assert [v == 2 for v in got["verdicts"]] == [True] * len(good) + [False] * len(bad), name


@pytest.mark.parametrize(
    "schema, place, words",
    [
        ({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}, "#/properties/a", "uniqueItems"),
        ({"type": "string", "pattern": "(?=a)"}, "#", "byte"),
        ({"type": "string", "format": "hostname"}, "#", "format"),
        ({"not": {}}, "#", "not"),
        ({"anyOf": [{"type": "string"}, {"if": {}}]}, "#/anyOf/1", "if"),
        ({"oneOf": [{"type": "string"}, {"type": "string", "minLength": 2}]}, "#", "overlap"),
        ({"$ref": "#/$defs/none"}, "#", "no '#/$defs/none'"),
        ({"$ref": "http://example.com/x"}, "#", "$ref"),
        ({"$ref": "#"}, "", "completes"),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "", "begins with itself"),
        ({"type": "strin"}, "#", "type"),
        ({"type": "integer", "minimum": 5, "maximum": 4}, "#", "no number"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "#", "items"),
        ({"type": "string", "maxLength": 10**9}, "", "too large"),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "#/properties/a", "false"),
        ({"enum": []}, "#", "enum"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "", "completes"),
    ],
)
def test_what_cant_be_enforced_is_refused_with_its_place(accepts, schema, place, words):
    error = accepts("schema", json.dumps(schema))["error"]
    assert place in error and words in error


def test_one_of_is_any_of_where_schemas_are_apart(accepts):
    def shape(kind):
        return {"type": "object", "properties": {"kind": {"const": kind}, "x": {"type": "integer"}}, "required": ["kind"], "additionalProperties": False}

    got = accepts("schema", json.dumps({"oneOf": [shape("a"), shape("b"), {"type": "null"}]}),
                  ['{"kind":"a"}', '{"kind": "b", "x": 1}', "null", '{"kind":"c"}'])
    assert got["verdicts"] == [2, 2, 2, 0]


# --- GBNF ---------------------------------------------------------------------------------------

ARITHMETIC = r"""
# sums of products
root  ::= sum
sum   ::= term (("+" | "-") term)*
term  ::= factor ( "*"   # goes on over lines
          factor )*
factor ::= [0-9]{1,2} | "(" sum ")" | name?  "!"
name  ::= [a-c\x78\u00e9]+
"""


def test_grammars_as_llama_cpp_writes_them(accepts):
    got = accepts("gbnf", ARITHMETIC, ["1+2*(3-44)", "xé!", "!", "100", "1+", "(1", ")", "1 + 2"])
    assert got["verdicts"] == [2, 2, 2, 0, 1, 1, 0, 0]


def recognises(rules, text):
    """Tries everything: does the rule S make the text? Rules are lists of alternatives, of letters and rules."""
    seen = {}

    def ends(symbols, at, budget):
        if not symbols:
            return {at}
        key = (symbols, at)
        if key in seen:
            return seen[key]
        seen[key] = set()
        head, rest = symbols[0], symbols[1:]
        out = set()
        if head in rules:
            for alternative in rules[head]:
                for middle in ends(alternative, at, budget):
                    out |= ends(rest, middle, budget)
        elif at < len(text) and text[at] == head:
            out = ends(rest, at + 1, budget)
        seen[key] = out
        return out

    return len(text) in ends("S", 0, 0)


def test_random_grammars_against_trying_everything(accepts):
    rng = random.Random(11)
    texts = ["".join(t) for n in range(7) for t in itertools.product("ab", repeat=n)]
    used = 0
    while used < 150:
        rules = {r: ["".join(rng.choice("abSTU" if i else "ab") for i in range(rng.randrange(0, 4))) for _ in range(rng.randint(1, 3))]
                 for r in "STU"}
        source = "root ::= s\n" + "".join(
            f"{r.lower()} ::= " + " | ".join(" ".join(f'"{c}"' if c in "ab" else c.lower() for c in a) or '""' for a in alternatives) + "\n"
            for r, alternatives in rules.items())
        got = accepts("gbnf", source, texts)
        if "error" in got:
            assert "begins with itself" in got["error"] or "completes" in got["error"], (source, got)
            continue
        used += 1
        for text, verdict in zip(texts, got["verdicts"], strict=True):
            assert (verdict == 2) == recognises(rules, text), (source, text, verdict)


@pytest.mark.parametrize(
    "source, words",
    [
        ("", "root"), ("root ::= x", "'x'"), ("root ::= root \"a\" | \"b\"", "begins with itself"),
        ("root ::= x root | \"b\"\nx ::= \"\"", "begins with itself"), ('root ::= "a" root', "completes"), ("root = 3", "::="),
        ('root ::= "a', "does not end"), ('root ::= "a"\nroot ::= "b"', "twice"), ('root ::= ("a"', "')'"),
        ('root ::= "a"{1000000000}', "too large"), ('root ::= (("a"{1000}){1000}){1000}{1000}', None),
        ("root ::= [z-a]", "range"), ('root ::= "\\q"', "escape"), ("root ::= " + "(" * 5000, "deeper"),
        ('root ::= "a"{3,2}', "least"), ("root ::= [" + "".join(chr(0x100 + 2 * i) for i in range(300)) + "]", "256"),
    ],
)
def test_hostile_grammars_end_soon_and_in_words(accepts, source, words):
    begin = time.monotonic()
    got = accepts("gbnf", source)
    assert time.monotonic() - begin < 2
    if words:
        assert words in got["error"]


def test_ambiguous_grammars_and_empty_loops_are_followed(accepts):
    got = accepts("gbnf", 'root ::= ((("a"* | "")* "")* | ("a" | "aa")*)* "b"', ["a" * 2000 + "b", "c"])
    assert got["verdicts"] == [2, 0]
    got = accepts("gbnf", 'root ::= "(" root ")" | "x"', ["(" * 500 + "x" + ")" * 500, "(" * 600])
    assert got["verdicts"] == [2, 0]
    got = accepts("gbnf", 'root ::= "a" root | "b"', ["a" * 50000 + "b"])
    assert got["verdicts"] == [2]


def test_what_the_automaton_forgets_changes_nothing(accepts):
    """States of so long a string fill its memory several times."""
    schema = json.dumps({"type": "array", "items": {"type": "string", "maxLength": 30000}})
    text = '["' + "x" * 30000 + '"]'
    assert accepts("schema", schema, [text, text[:-2], text.replace("x", "xx", 1)])["verdicts"] == [2, 1, 0]


# --- calls of functions, and reasoning ---------------------------------------------------------------

HERMES = {"mark": "<tool_call>", "open": "", "close": "</tool_call>", "arguments": "arguments"}
LLAMA3 = {"mark": "<|python_tag|>", "bare": True, "open": "", "close": "", "separator": ";", "arguments": "parameters"}
MISTRAL = {"mark": "[TOOL_CALLS]", "open": "[", "close": "]", "separator": ",", "arguments": "arguments"}
COUNT = {"type": "object", "properties": {"p": {"type": "integer"}}, "required": ["p"], "additionalProperties": False}
BAD = '{"name": "f", "arguments": {"p": "x"}}'


def calls_of(required, one, *parameters):
    functions = [{"name": name, "parameters": each} for name, each in zip("fgh", parameters)]
    return json.dumps({"required": required, "one": one, "functions": functions})


def object_of(syntax, name="f", arguments='{"p": 1}'):
    return f'{{"name": "{name}", "{syntax["arguments"]}": {arguments}}}'


def hermes(text):
    return f"<tool_call>\n{text}\n</tool_call>"


def test_calls_that_are_required(accepts):
    c, d, e = hermes(object_of(HERMES)), object_of(LLAMA3), object_of(MISTRAL)
    cases = [
        (HERMES, False, {"": 1, c: 2, c + "\n": 2, c + "\n" + c: 2, c + "x": 0, c[:20]: 1, "hi": 0, hermes(BAD): 0, " " + c: 0,
                         hermes(object_of(HERMES, "g", "{}")): 2, hermes(object_of(HERMES, "h", "{}")): 0, c.replace("\n", ""): 2}),
        (HERMES, True, {c: 2, c + "\n": 0, c + c: 0}),
        (LLAMA3, False, {d: 2, f"{d}; {d}": 2, d + ";": 1, d + "x": 0, "<|python_tag|>" + d: 0, d.replace("parameters", "arguments"): 0}),
        (LLAMA3, True, {d: 2, d + ";": 0}),
        (MISTRAL, False, {f"[TOOL_CALLS] [{e}]": 2, f"[TOOL_CALLS][{e}, {e}]": 2, f"[TOOL_CALLS][{e}": 1, e: 0}),
        (MISTRAL, True, {f"[TOOL_CALLS][{e}]": 2, f"[TOOL_CALLS][{e},": 0}),
    ]
    for syntax, one, texts in cases:
        got = accepts("calls", calls_of(True, one, COUNT, {"type": "object"}), texts, calls=syntax)
        assert dict(zip(texts, got["verdicts"], strict=True)) == texts, (syntax, one)


def test_calls_that_the_model_may_make(accepts):
    """Any text, in which what looks like a call is one that fits."""
    c, d, e = hermes(object_of(HERMES)), object_of(LLAMA3), f"[TOOL_CALLS][{object_of(MISTRAL)}]"
    cases = [
        (HERMES, False, {"": 2, "a" * 3000: 2, "é€🌧\n\0": 2, "so <tool_c": 2, f"a {c} b {c} <": 2, "<tool_call>x": 0, "<<tool_call>": 1,
                         "<tool_<tool_call>x": 0, "<tool_cal>x": 2, c + hermes(BAD): 0, "{x": 2}),
        (HERMES, True, {c: 2, c + " ": 0, "a" + c: 2}),
        (LLAMA3, False, {d: 2, f"\n {d}": 2, f"{d};{d}": 2, d + "; {x": 2, d + " and {": 2, "{": 1, "{x": 0, "a{x": 2, " ": 2, "<|a": 2,
                         f"x <|python_tag|>{d}": 2, "<|python_tag|>x": 0}),
        (MISTRAL, False, {e: 2, "x" + e + e + "y": 2, "[TOOL_CALLS]x": 0, "[TOOL_[TOOL_CALLS]x": 0, "[1]": 2}),
    ]
    for syntax, one, texts in cases:
        got = accepts("calls", calls_of(False, one, COUNT), texts, calls=syntax)
        assert dict(zip(texts, got["verdicts"], strict=True)) == texts, (syntax, one)
    # The letters of a mark that is a control token begin no call, and no text has the byte that stands for it.
    got = accepts("calls", calls_of(False, False, COUNT), ["a <tool_call", "<tool_call>", c], calls={**HERMES, "mark_is_token": True})
    assert got["verdicts"] == [2, 0, 0]


def test_calls_or_an_instance(accepts):
    source = {**json.loads(calls_of(False, False, COUNT)), "answer": {"$ref": "#/$defs/n", "$defs": {"n": {"enum": [1, "x"]}}}}
    c, d = hermes(object_of(HERMES)), object_of(LLAMA3)
    for syntax, texts in ((HERMES, {"1": 2, '"x"': 2, c: 2, c + "1": 0, "text": 0, c + "\n" + c: 2}), (LLAMA3, {"1": 2, d: 2, d + "1": 0})):
        got = accepts("calls", json.dumps(source), texts, calls=syntax)
        assert dict(zip(texts, got["verdicts"], strict=True)) == texts
    assert "'not'" in accepts("calls", json.dumps({**source, "answer": {"not": {}}}), calls=HERMES)["error"]


def test_words_are_found_wherever_they_begin(accepts):
    """Free text that ends with a word, against str.find."""
    rng = random.Random(11)
    for word in ("aab", "abab", "aaaa", "abcabd", "ab"):
        texts = ["".join(rng.choice("aabcd") for _ in range(rng.randrange(14))) for _ in range(300)]
        got = accepts("choice", '["!"]', [text + "!" for text in texts], reasoning_end=word)
        for text, verdict in zip(texts, got["verdicts"], strict=True):
            assert verdict == (2 if 0 <= text.find(word) == len(text) - len(word) else 0 if word in text else 1), (word, text)


def test_reasoning_comes_before_what_is_constrained(accepts):
    c = hermes(object_of(HERMES))
    texts = {c: 2, f"<think>{'a' * 2000}<tool_call></think>\n\n{c}": 2, "<think></think>": 1, "<think>" + c: 1, "x": 0, f"<think></think>{c}x": 0}
    got = accepts("calls", calls_of(True, False, COUNT), texts, calls=HERMES, reasoning_begin="<think>", reasoning_end="</think>")
    assert dict(zip(texts, got["verdicts"], strict=True)) == texts
    texts = {"1": 1, "a</think>1": 2, "</th</think>\n\n12": 2, "</think>x": 0}
    got = accepts("schema", '{"type": "integer"}', texts, reasoning_end="</think>")
    assert dict(zip(texts, got["verdicts"], strict=True)) == texts


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"type": "array"}, "objects"), ({}, "objects"), (True, "objects"), ({"enum": [1]}, "objects"), ({"$ref": "#/x"}, "objects"),
        ({"type": ["object", "null"]}, "objects"), ({"anyOf": [COUNT, {"type": "null"}]}, "objects"), ({"$ref": "#"}, "objects"),
        ({"type": "object", "properties": {"a": {"not": {}}}}, "#/properties/a"), ({"type": "object", "minProperties": 1}, "minProperties"),
        ({"anyOf": [COUNT, {"type": "object", "properties": {}}]}, None), ({"$ref": "#/$defs/c", "$defs": {"c": COUNT}}, None), ({"properties": {}}, None),
    ],
)
def test_arguments_that_cant_be_enforced_are_named(accepts, parameters, words):
    got = accepts("calls", calls_of(True, False, COUNT, parameters), calls=HERMES)
    if words is None:
        assert "error" not in got
    else:
        assert got["error"].startswith("function 'g': ") and words in got["error"]

"""The template interpreter against PyPI's jinja2. Needs the built tests/template/render (WEIGHTD_BUILD: the build
directory); without it the tests fail, they are not skipped."""

import datetime
import errno
import json
import os
import pathlib
import random
import re
import unicodedata

import chats
import generate
import gguf
import oracle
import pytest
import snippets
import styles

TOP = pathlib.Path(__file__).resolve().parents[2]

# jinja2 answers and this interpreter says that it does not: integers of more than 64 bits, text that contains an address,
# and what snippets.REFUSED lists.
REFUSALS = (
    "64 bits",
    "64-bit integer",
    "is not supported",
    "integer does not fit",
)


@pytest.fixture(scope="module")
def renderer():
    renderer = oracle.Renderer()
    assert renderer.available(), f"{renderer.program} is not built (make check TESTS= builds it; WEIGHTD_BUILD says where)"
    yield renderer
    renderer.close()


def compare(renderer, requests):
    """All requests; fails with the first few differences."""
    differences, n, n_texts, n_refused = [], 0, 0, 0
    for template, request in requests:
        n += 1
        want = oracle.expected(template, **request)
        got = renderer(template, **request)
        if isinstance(want, Exception):
            if "text" in got:
                differences.append(f"{template!r} {request!r}\n  jinja2 raises {want!r}\n  rendered {got['text']!r}")
        elif "text" in got:
            n_texts += 1
            if got["text"] != want:
                differences.append(f"{template!r} {request!r}\n  jinja2   {want!r}\n  rendered {got['text']!r}")
        elif any(words in got["error"] for words in REFUSALS):
            n_refused += 1
        else:
            differences.append(f"{template!r} {request!r}\n  jinja2   {want!r}\n  failed   {got!r}")
    assert not differences, f"{len(differences)} of {n} differ:\n" + "\n".join(differences[:10])
    return n, n_texts, n_refused


def model_template():
    """The template in the default model's file, which ./check and ./quickstart keep in the cache directory."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    reader = gguf.GGUFReader(cache / "weightd/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    return reader.fields["tokenizer.chat_template"].contents()


def test_the_models_own_template_renders_the_golden_chats(renderer):
    golden = json.loads((TOP / "tests/golden/smollm2-135m-instruct-q4_1.json").read_text())
    template = model_template()
    assert len(golden["chat"]) >= 1
    for chat in golden["chat"]:
        got = renderer(template, messages=chat["messages"], add_generation_prompt=True)
        assert got == {"text": chat["rendered"]}


def test_the_models_own_template_over_random_conversations(renderer):
    rng, template = random.Random(6), model_template()
    n, n_texts, n_refused = compare(renderer, ((template, chats.random_request(rng)) for _ in range(300)))
    assert n_texts > n / 4
    assert n_refused == 0


@pytest.mark.parametrize("template", list(snippets.cases()))
def test_snippet(renderer, template):
    difference = oracle.differs(renderer, template, variables=snippets.VARIABLES)
    assert difference is None, difference


@pytest.mark.parametrize("expression", snippets.REFUSED)
def test_what_is_refused_is_refused_in_words(renderer, expression):
    got = renderer("{{ " + expression + " }}", variables=snippets.VARIABLES)
    assert got.get("errno") in (errno.ENOTSUP, errno.EINVAL), got
    assert any(words in got["error"] for words in REFUSALS), got
    assert not isinstance(oracle.expected("{{ " + expression + " }}", variables=snippets.VARIABLES), Exception)


STYLES = {**chats.STYLES, **styles.STYLES}


@pytest.mark.parametrize("style", STYLES)
def test_chat_templates_over_random_conversations(renderer, style):
    rng = random.Random(style)
    n, n_texts, n_refused = compare(renderer, ((STYLES[style], chats.random_request(rng)) for _ in range(300)))
    assert n_texts > n / 4, "most conversations must render, or nothing is compared"
    assert n_refused == 0


def test_chat_styles_raise_their_own_words(renderer):
    got = renderer(chats.BRACKETS, messages=[{"role": "poet", "content": "x"}])
    assert got == {"stage": "render", "errno": errno.EINVAL, "error": "Unknown role: poet"}


def test_random_expressions(renderer):
    rng = random.Random(1)
    requests = (("{{ " + generate.expression(rng) + " }}", {"variables": snippets.VARIABLES}) for _ in range(4000))
    n, n_texts, n_refused = compare(renderer, requests)
    assert n_texts > n / 8
    assert n_refused < n / 8


def test_random_templates(renderer):
    rng = random.Random(2)
    requests = ((generate.template(rng), {"variables": snippets.VARIABLES}) for _ in range(1500))
    n, n_texts, n_refused = compare(renderer, requests)
    assert n_texts > n / 2
    assert n_refused < n / 8


def test_floats_print_as_python_prints_them(renderer):
    rng = random.Random(3)
    floats = [rng.uniform(-1, 1) * 10.0 ** rng.randrange(-320, 309) for _ in range(3000)]
    floats += [2.0**e for e in range(-1074, 1024)] + [float(n) for n in range(-1000, 1000)] + [n / 1000 for n in range(1000)]
    got = renderer("{{ a|tojson }}", variables={"a": floats})
    assert got["text"] == json.dumps(floats)


def test_rounding_agrees_on_many_numbers(renderer):
    rng = random.Random(4)
    numbers = [round(rng.uniform(-1000, 1000), rng.randrange(5)) for _ in range(500)] + [n + 0.5 for n in range(-20, 20)]
    template = "{% for n in a %}{% for p in range(-3, 6) %}{{ n|round(p) }} {{ n|round(p, 'floor') }} {% endfor %}{% endfor %}"
    assert oracle.differs(renderer, template, variables={"a": numbers}) is None


# Characters that this Python does not know are left out: utf8proc may be newer.
KNOWN = [
    chr(c)
    for c in range(0x110000)
    if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) not in ("Cn", "Co") and c < 0x30000
]
# unicode_tables.h is of Unicode 14. A later Python has since changed its mind about a few of those 140,000 characters.
TOLERATED = 0 if unicodedata.unidata_version.startswith("14.") else 150


def wrong_characters(renderer, expression, expected):
    """The characters c for which the expression does not print what it should."""
    wrong = []
    for start in range(0, len(KNOWN), 4000):
        part = KNOWN[start : start + 4000]
        text = renderer("{% for c in a %}" + expression + "<|>{% endfor %}", variables={"a": part})["text"]
        wrong += [hex(ord(c)) for c, got in zip(part, text.split("<|>")[:-1], strict=True) if got != expected(c)]
    return wrong


@pytest.mark.parametrize("method", ["upper", "lower", "title", "capitalize", "swapcase", "casefold"])
def test_case_mappings_of_all_characters(renderer, method):
    expression = "{{ c." + method + "() }} {{ ('x' ~ c ~ 'y')." + method + "() }}"
    wrong = wrong_characters(renderer, expression, lambda c: f"{getattr(c, method)()} {getattr('x' + c + 'y', method)()}")
    assert len(wrong) <= TOLERATED, wrong


@pytest.mark.parametrize(
    "method",
    ["isalpha", "isdigit", "isdecimal", "isnumeric", "isalnum", "isspace", "isprintable", "islower", "isupper", "istitle"],
)
def test_properties_of_all_characters(renderer, method):
    wrong = wrong_characters(renderer, "{{ c." + method + "() }}", lambda c: str(getattr(c, method)()))
    assert len(wrong) <= TOLERATED, wrong


def test_replace_takes_count_by_name_as_python_does_since_3_13(renderer):
    assert renderer("{{ 'hello'.replace('l', 'L', count=1) }}")["text"] == "heLlo"


def test_sigma_at_the_end_of_words(renderer):
    rng = random.Random(5)
    pieces = ["Σ", "a", "1", " ", "'", "\u0301", "ʰ", "Β", "-", "\u00ad"]
    words = ["".join(rng.choice(pieces) for _ in range(rng.randrange(1, 7))) for _ in range(2000)]
    template = "{% for w in a %}{{ w.lower() }}|{{ w.title() }}|{{ w.capitalize() }}|{{ w|title }}\n{% endfor %}"
    assert oracle.differs(renderer, template, variables={"a": words}) is None


def test_the_date_is_written_as_python_writes_it(renderer):
    letters = "aAwdbBmyYHIpMSfzZjUWcxXGuV%"
    template = "{{ strftime_now('" + " ".join(f"%{c}" for c in letters) + " %-d %e é') }}"
    rng = random.Random(8)
    for _ in range(300):
        now = datetime.datetime(rng.randrange(1900, 2200), rng.randrange(1, 13), rng.randrange(1, 29), rng.randrange(24), rng.randrange(60))
        assert oracle.differs(renderer, template, variables={"now": now.isoformat(timespec="minutes")}) is None


def test_a_hostile_template_ends(renderer):
    for template in [
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'x' * 100000000000 }}",
        "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}",
        "{{ range(100000)|list * 100000 }}",
        "{% set n = namespace(a='x') %}{% for i in range(100) %}{% set n.a = n.a + n.a %}{% endfor %}",
        "{{ 10 ** 10 ** 10 }}",
        "{{ 'a'.center(99999999999) }}",
        "{{ '%99999999d' % 1 }}",
        "{{ '{:99999999999}'.format(1) }}",
    ]:
        got = renderer(template)
        assert got.get("errno") in (errno.E2BIG, errno.EINVAL), (template, got)

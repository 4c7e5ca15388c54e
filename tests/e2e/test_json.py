"""RFC 8259 as a strict server reads it: every case is the body of a request, with one verdict. What the grammar does not have
is refused, and so is what two readers could read differently: doubled keys, a byte order mark, ill-formed UTF-8."""

import pytest

import weightd


def value(text):
    """A body in which only this value is at question; `user` is looked at by nobody but the reader of JSON."""
    return b'{"prompt":"x","max_tokens":1,"user":' + (text if isinstance(text, bytes) else text.encode()) + b"}"


GOOD_VALUES = [
    "null", "true", "false", "0", "-0", "1", "-1", "10", "0.0", "-0.1", "0e1", "0E+1", "1e-2", "1.5e3", "1E5", "1e22", "0.1e-7",
    "1e-400", "123456789012345678901234567890", "-9223372036854775808", "18446744073709551615", "1.7976931348623157e308",
    '""', '"a"', '"\\""', '"\\\\"', '"\\/"', '"/"', '"\\b\\f\\n\\r\\t"', '"\\u0041"', '"\\u0000"', '"\\uD83D\\uDE00"',
    '"\\ud83d\\ude00"', '"\\uFFFF"', '"\\uFDD0"', '"\x7f"', '"é"', '"€"', '"😀"', '"\u2028\u2029"', '"\ufeff"', '"\ue000"',
    '"\U0010ffff"', '"\U0001fffe"', '" "', '"a\\u00e9b"', '"[{,:}]"',
    "[]", "[ ]", "[\t\n\r ]", "[1]", "[1,2]", "[ 1 , 2 ]", "[[]]", "[[],[[]]]", "[null,true,\"a\",{}]", "[1,1,1]",
    "{}", "{ }", '{"a":1}', '{ "a" : 1 }', '{"a":1,"b":2}', '{"":0}', '{"a":{"a":{"a":1}}}', '{"a":[{"a":1},{"a":2}]}',
    '{"\\u0000":1}', '{"é":1,"e\u0301":2}', "[" * 40 + "]" * 40,
]  # fmt: skip

BAD_VALUES = [
    "", " ", "nul", "nulll", "NULL", "Null", "True", "TRUE", "tru", "fals", "undefined", "nil", "a", "'a'", "`a`", "\ufeff1",
    "+1", "--1", "-", "- 1", "01", "-01", "00", "0x10", "0b1", "0o7", "1.", ".1", "-.1", "1.e1", "1e", "1e+", "1E-", "1e1.5",
    "1.2.3", "1 2", "1_000", "1,000", "0e", "NaN", "nan", "-NaN", "Infinity", "-Infinity", "inf", "1e999", "-1e999", "１",
    "1n", "1f", "$1", "#1", "1/2", "1#", "(1)", "1;",
    '"', '"a', 'a"', '"a""b"', '"a" "b"', '"\\"', '"\\x41"', '"\\a"', '"\\\'"', '"\\0"', '"\\u"', '"\\u0"', '"\\u00"',
    '"\\u004"', '"\\u00g0"', '"\\U0041"', '"\\uD800"', '"\\uDC00"', '"\\uD800\\uD800"', '"\\uD800a"', '"\\uD800\\n"',
    '"\\uDE00\\uD83D"', '"\t"', '"\n"', '"\r"', '"\x00"', '"\x01"', '"\x1f"', '"\\\n"', '"a\nb"',
    b'"\xff"', b'"\xfe"', b'"\x80"', b'"\xbf"', b'"\xc0\x80"', b'"\xc0\xaf"', b'"\xc1\xbf"', b'"\xc3"', b'"\xc3("', b'"\xe2\x82"',
    b'"\xe0\x80\x80"', b'"\xe0\x9f\xbf"', b'"\xed\xa0\x80"', b'"\xed\xbf\xbf"', b'"\xed\xa0\xbd\xed\xb8\x80"', b'"\xf0\x9f\x98"',
    b'"\xf0\x80\x80\x80"', b'"\xf0\x8f\xbf\xbf"', b'"\xf4\x90\x80\x80"', b'"\xf5\x80\x80\x80"', b'"\xf8\x88\x80\x80\x80"',
    b'"\xe9"', b"\xff", b"1\xff", b"\xef\xbb\xbf1", b"\xa01",
    "[", "]", "[1", "1]", "[1,", "[,1]", "[1,]", "[1,,2]", "[,]", "[1 2]", "[1;2]", "[1:2]", '["a":1]', "[1}", "{1]", "[]]", "[[]",
    "[1,\n", "[\x0c1]", "[\x0b1]", "[\u00a01]", "[\u20031]", "[*]", "[...]",
    "{", "}", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{,"a":1}', '{"a":1,,"b":2}', '{"a" 1}', '{"a"::1}', '{"a":}', "{:1}",
    "{a:1}", "{'a':1}", "{1:1}", "{null:1}", "{[]:1}", '{"a":1 "b":2}', '{"a":1;"b":2}', '{"a":1]', '{"a","b"}', "{{}}", '{"a":1}}',
    '{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '{"x":{"a":1,"b":2,"a":3}}', '[{"":1,"":1}]',
    "/* */1", "1/* */", "1//", "//\n1", "# \n1", "<!-- -->1", "[/**/]", '{"a":/**/1}',
    "[" * 70 + "]" * 70, '{"a":' * 70 + "1" + "}" * 70, "[" * 1000,
]  # fmt: skip

GOOD_BODIES = [b'{"content":"x"}', b' \t\r\n{"content":"x"}\n ', b'{\n"content"\t:\r"x"\n}', b'{"cont\\u0065nt":"x"}']

BAD_BODIES = [
    b"", b" ", b"\n", b"null", b"true", b"1", b'"content"', b"[]", b'[{"content":"x"}]', b'{"content":"x"', b'"content":"x"}',
    b'{"content":"x"}{}', b'{"content":"x"} {"content":"x"}', b'{"content":"x"},', b'{"content":"x"}]', b'{"content":"x"}\x00',
    b'\x00{"content":"x"}', b'\xef\xbb\xbf{"content":"x"}', b'{"content":"x"}\xef\xbb\xbf', b'({"content":"x"})',
    b')]}\',\n{"content":"x"}', b'{"content":"x","content":"y"}', b'{"content":"x","cont\\u0065nt":"x"}', b'data: {"content":"x"}',
    b"content=x", b"<content>x</content>", '{"content":"x"}'.encode("utf-16-le"), '{"content":"x"}'.encode("utf-16"),
    '{"content":"x"}'.encode("utf-32-be"), b'{"content":"x"}\x0c', b'{"content":"x"}x', b"{}}", b"{" * 100000, b"[" * 100000,
]  # fmt: skip


@pytest.fixture(scope="module")
def tiny_http(tiny):
    with weightd.running({"tiny": tiny}) as running:
        yield running.http


def wrong_verdicts(http, target, bodies, status):
    """All that get another verdict, so that one run shows them all."""
    answers = [(body, http.post(target, body)) for body in bodies]
    return [(body[:120], answer.status) for body, answer in answers if answer.status != status]


def test_values_that_are_json(tiny_http):
    assert wrong_verdicts(tiny_http, "/v1/completions", map(value, GOOD_VALUES), 200) == []


def test_values_that_are_not(tiny_http):
    assert wrong_verdicts(tiny_http, "/v1/completions", map(value, BAD_VALUES), 400) == []
    assert tiny_http.post("/v1/completions", value("1")).status == 200


def test_bodies(tiny_http):
    assert wrong_verdicts(tiny_http, "/tokenize", GOOD_BODIES, 200) == []
    assert wrong_verdicts(tiny_http, "/tokenize", BAD_BODIES, 400) == []
    assert tiny_http.post("/tokenize", GOOD_BODIES[0]).status == 200

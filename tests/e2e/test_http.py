"""RFC 9112 as a server reads it that may stand behind a proxy: whatever the two could read differently is refused, and the
connection closes, so that no byte behind it is ever taken for a request. Each case is sent in one piece and byte by byte."""

import re
import socket

import pytest

import weightd

OK = b'{"content":"x"}'
SMUGGLED = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


def post(headers, body=OK, line=b"POST /tokenize HTTP/1.1"):
    return b"".join([line, b"\r\n", *(header + b"\r\n" for header in headers), b"\r\n", body])


HOST, LENGTH, CHUNKED, CLOSE = b"Host: x", b"Content-Length: 15", b"Transfer-Encoding: chunked", b"Connection: close"
CHUNKS = b"f\r\n" + OK + b"\r\n0\r\n\r\n"

GOOD = {
    "length": post([HOST, LENGTH, CLOSE]),
    "chunked": post([HOST, CHUNKED, CLOSE], CHUNKS),
    "chunks": post([HOST, CHUNKED, CLOSE], b"1\r\n{\r\nE\r\n" + OK[1:] + b"\r\n000\r\n\r\n"),
    "chunk extension": post([HOST, CHUNKED, CLOSE], b"f;a=b;c=\"d e\"\r\n" + OK + b"\r\n0;z\r\n\r\n"),
    "trailer": post([HOST, CHUNKED, CLOSE], b"f\r\n" + OK + b"\r\n0\r\nX: y\r\n\r\n"),
    "case": post([b"hOST: x", b"tRANSFER-eNCODING: CHUNKED", b"connection: CLOSE"], CHUNKS),
    "white space of values": post([b"Host: \t x \t", b"Content-Length:  15  ", b"Connection:close"]),
    "absolute form": post([HOST, LENGTH, CLOSE], line=b"POST http://x/tokenize HTTP/1.1"),
    "query": post([HOST, LENGTH, CLOSE], line=b"POST /tokenize?a=b HTTP/1.1"),
    "empty line before": b"\r\n" + post([HOST, LENGTH, CLOSE]),
    "two spaces": post([HOST, LENGTH, CLOSE], line=b"POST /tokenize  HTTP/1.1"),  # may be taken: section 3
    "1.0": post([LENGTH], line=b"POST /tokenize HTTP/1.0"),
}

BAD = {
    "both": post([HOST, LENGTH, CHUNKED], CHUNKS),
    "both, other order": post([HOST, CHUNKED, LENGTH], CHUNKS),
    "two lengths": post([HOST, LENGTH, b"Content-Length: 16"]),
    "two equal lengths": post([HOST, LENGTH, LENGTH]),
    "list of lengths": post([HOST, b"Content-Length: 15, 15"]),
    "length +": post([HOST, b"Content-Length: +15"]),
    "length -": post([HOST, b"Content-Length: -15"]),
    "length hex": post([HOST, b"Content-Length: 0xf"]),
    "length float": post([HOST, b"Content-Length: 15.0"]),
    "length space": post([HOST, b"Content-Length: 1 5"]),
    "length empty": post([HOST, b"Content-Length:"]),
    "length 2^64": post([HOST, b"Content-Length: 18446744073709551616"]),
    "length 2^64 + 15": post([HOST, b"Content-Length: 18446744073709551631"]),
    "space before colon": post([HOST, b"Content-Length : 15"]),
    "tab before colon": post([HOST, b"Transfer-Encoding\t: chunked"], CHUNKS),
    "space before name": post([HOST, b" Content-Length: 15"]),
    "folded": post([HOST, b"Transfer-Encoding:\r\n chunked"], CHUNKS),
    "folded value": post([HOST, LENGTH, b"X: a\r\n\tb"]),
    "name with byte": post([HOST, b"Content\x00Length: 15"]),
    "name 8 bit": post([HOST, b"X\xe9: 15", LENGTH]),
    "no colon": post([HOST, b"Content-Length"]),
    "no name": post([HOST, b": 15", LENGTH]),
    "NUL in value": post([HOST, b"X: a\x00b", LENGTH]),
    "bare CR in value": post([HOST, b"X: a\rb", LENGTH]),
    "bare LF in line": b"POST /tokenize HTTP/1.1\nHost: x\r\nContent-Length: 15\r\n\r\n" + OK,
    "bare LF in headers": b"POST /tokenize HTTP/1.1\r\nHost: x\nContent-Length: 15\r\n\r\n" + OK,
    "bare LF at the end": b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 15\n\n" + OK,
    "no host": post([LENGTH]),
    "two hosts": post([HOST, HOST, LENGTH]),
    "two codings": post([HOST, CHUNKED, CHUNKED], CHUNKS),
    "chunk size empty": post([HOST, CHUNKED], b"\r\n" + OK + b"\r\n0\r\n\r\n"),
    "chunk size 0x": post([HOST, CHUNKED], b"0xf\r\n" + OK + b"\r\n0\r\n\r\n"),
    "chunk size -": post([HOST, CHUNKED], b"-f\r\n" + OK + b"\r\n0\r\n\r\n"),
    "chunk size +": post([HOST, CHUNKED], b"+f\r\n" + OK + b"\r\n0\r\n\r\n"),
    "chunk size long": post([HOST, CHUNKED], b"1000000000000000f\r\n" + OK + b"\r\n0\r\n\r\n"),
    "chunk size g": post([HOST, CHUNKED], b"g\r\n" + OK + b"\r\n0\r\n\r\n"),
    "chunk LF": post([HOST, CHUNKED], b"f\n" + OK + b"\r\n0\r\n\r\n"),
    "chunk too long": post([HOST, CHUNKED], b"e\r\n" + OK + b"\r\n0\r\n\r\n"),
    "chunk without end": post([HOST, CHUNKED], b"f\r\n" + OK + b"0\r\n\r\n"),
    "target #": post([HOST, LENGTH], line=b"POST /tokenize#a HTTP/1.1"),
    "target 8 bit": post([HOST, LENGTH], line=b"POST /tok\xe9 HTTP/1.1"),
    "target authority": post([HOST, LENGTH], line=b"POST x:80 HTTP/1.1"),
    "no target": post([HOST, LENGTH], line=b"POST HTTP/1.1"),
    "method": post([HOST, LENGTH], line=b"P\xd6ST /tokenize HTTP/1.1"),
    "lower case method": post([HOST, LENGTH], line=b"post /tokenize HTTP/1.1"),
    "coding in 1.0": post([HOST, CHUNKED], CHUNKS, line=b"POST /tokenize HTTP/1.0"),
    "response": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + bytes(60),
}

OTHER = {
    "other coding": (post([HOST, b"Transfer-Encoding: gzip, chunked"], CHUNKS), 501),
    "identity": (post([HOST, b"Transfer-Encoding: identity"]), (400, 501)),
    "xchunked": (post([HOST, b"Transfer-Encoding: xchunked"], CHUNKS), (400, 501)),
    "chunked, other": (post([HOST, b"Transfer-Encoding: chunked, gzip"], CHUNKS), (400, 501)),
    "version 2": (post([HOST, LENGTH], line=b"POST /tokenize HTTP/2.0"), 505),
    "version 1.2": (post([HOST, LENGTH], line=b"POST /tokenize HTTP/1.2"), 505),
    "version 0.9": (b"GET /health\r\n\r\n", (400, 505)),
    "connect": (b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    "expectation": (post([HOST, LENGTH, b"Expect: 200-ok"]), 417),
    "length past the limit": (post([HOST, b"Content-Length: 9999999999"]), 413),
    "chunk past the limit": (post([HOST, CHUNKED], b"ffffffff\r\n"), 413),
    "long target": (post([HOST, LENGTH], line=b"POST /" + b"a" * 2000 + b" HTTP/1.1"), 414),
    "long header": (post([HOST, b"X: " + b"a" * 20000, LENGTH]), 431),
}


@pytest.fixture(scope="module")
def path(tiny):
    with weightd.running({"tiny": tiny}) as running:
        yield running.socket
        assert running.http.get("/health").status == 200


def answers(path, sent, piece):
    """The statuses of all answers until the server closes; a server that closes early need not be heard to the end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(20)
        client.connect(str(path))
        try:
            for at in range(0, len(sent), piece):
                client.sendall(sent[at : at + piece])
        except (BrokenPipeError, ConnectionResetError):
            pass
        received = b""
        try:
            while chunk := client.recv(65536):
                received += chunk
        except ConnectionResetError:
            pass
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", received)]


@pytest.mark.parametrize("piece", [1, 1 << 20], ids=["bytes", "whole"])
@pytest.mark.parametrize("name", GOOD)
def test_good(path, name, piece):
    assert answers(path, GOOD[name], piece) == [200]


@pytest.mark.parametrize("piece", [1, 1 << 20], ids=["bytes", "whole"])
@pytest.mark.parametrize("name", [*BAD, *OTHER])
def test_refused_and_closed(path, name, piece):
    """One answer, the refusal; the request behind it is never one."""
    sent, status = OTHER.get(name) or (BAD[name], 400)
    (answer,) = answers(path, sent + SMUGGLED, piece)
    assert answer in (status if isinstance(status, tuple) else (status,))

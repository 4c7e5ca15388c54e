"""What PyPI's jinja2 renders with the settings that transformers gives it, and the C renderer behind the same call."""

import copy
import datetime
import json
import os
import pathlib
import subprocess

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what the model wrote; for rendering it is a call block around its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = raise_exception
    return env


ENVIRONMENT = environment()


def expected(template, messages=(), variables=None, bos_token="", eos_token="", add_generation_prompt=False):
    """The text, or the exception."""
    # A copy, because some filters change a list that they should not have been given ([1]|indent).
    messages, variables = copy.deepcopy((messages, variables))
    context = {
        "messages": list(messages),
        "bos_token": bos_token,
        "eos_token": eos_token,
        "add_generation_prompt": add_generation_prompt,
        **(variables or {}),
    }
    if "now" in context:  # the request's own time, where transformers takes the machine's
        context["strftime_now"] = lambda format: datetime.datetime.fromisoformat(context["now"]).strftime(format)
    try:
        text = ENVIRONMENT.from_string(template).render(context)
        text.encode()
        return text
    except Exception as error:  # noqa: BLE001: whatever it is, the template fails
        return error


class Renderer:
    """The C renderer as a process that answers one request a line."""

    def __init__(self):
        build = pathlib.Path(os.environ.get("WEIGHTD_BUILD", "."))
        self.program = build / "tests/template/render"
        self.process = None

    def available(self):
        return self.program.exists()

    def __call__(self, template, **request):
        if self.process is None:
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = json.dumps({"template": template, **request}, ensure_ascii=False).encode(errors="surrogatepass")
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the renderer died on {template!r} {request!r}"
        return json.loads(answer)

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            assert self.process.wait(timeout=30) == 0


def differs(renderer, template, **request):
    """A description of how the two disagree, or None."""
    want = expected(template, **request)
    got = renderer(template, **request)
    if isinstance(want, Exception):
        if "text" in got:
            return f"{template!r}\n  jinja2 raises {want!r}\n  rendered      {got['text']!r}"
        return None
    if got.get("text") == want:
        return None
    return f"{template!r} {request.get('variables')}\n  jinja2   {want!r}\n  rendered {got.get('text', got)!r}"

"""A browser without a window, driven by the DevTools protocol over a pair of pipes: messages of JSON, each ended by a 0."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

import weightd

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
TAB, ENTER = ("Tab", 9, ""), ("Enter", 13, "\r")


class Browser:
    def __init__(self):
        program = next((path for path in map(shutil.which, PROGRAMS) if path), None)
        assert program, f"none of {PROGRAMS} is installed: packaging/setup installs one"
        self.profile = tempfile.mkdtemp(prefix="weightd-browser-")
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # High, so that putting them where the browser looks for them overwrites neither.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs_in, theirs_out)]

        def place():
            weightd.end_with_us()
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        options = ["--headless", "--remote-debugging-pipe", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # which root's browser does not have
        self.process = subprocess.Popen(
            [program, *options, f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=place, pass_fds=(3, 4),
        )  # fmt: skip
        for fd in (theirs_in, theirs_out, *ends):
            os.close(fd)
        self.input, self.output = ours_in, ours_out
        self.received, self.last_id, self.answers, self.pages = b"", 0, {}, {}

    def send(self, method, parameters, session):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.output, data) :]
        return self.last_id

    def take(self, seconds):
        """Whatever comes within this time, until at least one message has."""
        while b"\0" not in self.received:
            if not select.select([self.input], [], [], seconds)[0]:
                return
            chunk = os.read(self.input, 1 << 20)
            assert chunk, "the browser has ended"
            self.received += chunk
        *messages, self.received = self.received.split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            elif message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].event(message["method"], message["params"])

    def call(self, method, session=None, seconds=120, **parameters):
        number, end = self.send(method, parameters, session), time.monotonic() + seconds
        while number not in self.answers:
            assert time.monotonic() < end, f"the browser does not answer {method}"
            self.take(1)
        answer = self.answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def page(self, width=1280, height=900):
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        return Page(self, context, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"], width, height)

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        os.close(self.input)
        os.close(self.output)
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """A tab with storage of its own. `problems`: what the console and the page's own policy complained of."""

    def __init__(self, browser, context, session, width, height):
        self.browser, self.context, self.session, self.problems = browser, context, session, []
        browser.pages[session] = self
        for domain in "Page", "Runtime", "Log", "Accessibility", "DOM":
            self.call(f"{domain}.enable")
        self.size(width, height)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def event(self, method, parameters):
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(str(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{parameters['entry']['source']}: {parameters['entry']['text']}")

    def size(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, **features):
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=wanted)

    def before(self, script):
        """Runs this in every page that is opened, before the page's own script."""
        self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def open(self, url):
        answer = self.call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        self.wait("document.readyState === 'complete'", "loaded")

    def run(self, expression):
        """The value of a JavaScript expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, expression, what, seconds=60):
        """The expression's value once it is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(expression)):
            assert time.monotonic() < end, f"not {what} after {seconds} s: {expression}\n{self.text()[-3000:]}"
            self.browser.take(0.05)
        return value

    def text(self, selector="body"):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def press(self, key, modifiers=0):
        name, code, text = key
        fields = {"key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", **fields, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **fields)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def names(self):
        """[(role, name)] of the accessibility tree's nodes."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n["ignored"]]

    def screenshot(self, path, full=True):
        area = {}
        if full:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            area = {"clip": {**size, "scale": 1}, "captureBeyondViewport": True}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **area)["data"]))

    def close(self):
        del self.browser.pages[self.session]
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)

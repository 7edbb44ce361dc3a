"""A browser without a screen: Debian's chromium, driven over the DevTools protocol by trio-websocket."""

import base64
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio
from trio_websocket import ConnectionClosed, open_websocket_url

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ALONE = (  # what keeps it from looking for its maker's servers, and from needing a screen or a sandbox of its own
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
WITHIN = 60  # seconds, for anything; on a machine with every core busy


def program():
    """Where it is. Without it the test is left out, and in CI it fails: there it has to be had."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        missing = f"there is no {', '.join(PROGRAMS)}; `apt-get install chromium` brings one"
        pytest.fail(missing) if "CI" in os.environ else pytest.skip(missing)
    return found


@contextmanager
def running(command):
    """The address at which its DevTools listen."""
    with tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [command, *ALONE, f"--user-data-dir={folder}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                found = (re.search(r"DevTools listening on (ws://\S+)", line) for line in process.stderr)
                yield next(filter(None, found))[1]
            finally:
                process.terminate()


@asynccontextmanager
async def open_tab(devtools, url, *, width=1280, height=800, dark=False, reduced_motion=False):
    """A page in a profile of its own, once it has loaded."""
    async with open_websocket_url(devtools, max_message_size=2**26) as socket, trio.open_nursery() as nursery:
        browser = Browser(socket)
        nursery.start_soon(browser.run)
        context = (await browser.call("Target.createBrowserContext"))["browserContextId"]
        target = await browser.call("Target.createTarget", url="about:blank", browserContextId=context)
        session = await browser.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        tab = Tab(browser, session["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            await tab.call(f"{domain}.enable")
        await tab.size(width, height)
        await tab.look(dark=dark, reduced_motion=reduced_motion)
        await tab.call("Page.navigate", url=url)
        await tab.until("document.readyState === 'complete'")
        try:
            yield tab
        finally:
            with trio.move_on_after(WITHIN, shield=True):
                await browser.call("Target.disposeBrowserContext", browserContextId=context)
            nursery.cancel_scope.cancel()


class Browser:
    """Calls and their answers; what the pages complain about stands in `problems`, what they fetch in `requests`."""

    def __init__(self, socket):
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers = {}
        self.problems = []
        self.requests = []

    async def run(self):
        try:
            while True:
                self._heard(json.loads(await self._socket.get_message()))
        except ConnectionClosed:
            pass

    def _heard(self, message):
        if "id" in message:
            self._answers.pop(message["id"]).send_nowait(message)
        elif message["method"] == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(message["params"]["exceptionDetails"]))
        elif message["method"] == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.problems.append(message["params"]["entry"]["text"])
        elif message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
            self.requests.append(message["params"].get("url") or message["params"]["request"]["url"])

    async def call(self, method, session=None, **params):
        number = next(self._numbers)
        send, receive = trio.open_memory_channel(1)
        self._answers[number] = send
        where = {} if session is None else {"sessionId": session}
        await self._socket.send_message(json.dumps({"id": number, "method": method, "params": params, **where}))
        with trio.fail_after(WITHIN):
            answer = await receive.receive()
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]


class Tab:
    def __init__(self, browser, session):
        self._browser = browser
        self._session = session

    @property
    def problems(self):
        return self._browser.problems

    @property
    def requests(self):
        return self._browser.requests

    async def call(self, method, **params):
        return await self._browser.call(method, self._session, **params)

    async def size(self, width, height):
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def look(self, *, dark=False, reduced_motion=False):
        """What the user has asked the system for."""
        features = {
            "prefers-color-scheme": "dark" if dark else "light",
            "prefers-reduced-motion": "reduce" if reduced_motion else "no-preference",
        }
        await self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": name, "value": value} for name, value in features.items()],
        )

    async def run(self, script):
        """The value of an expression, a promise's when it has one."""
        done = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(
                done["exceptionDetails"]["exception"].get("description", done["exceptionDetails"]["text"])
            )
        return done["result"].get("value")

    async def until(self, condition):
        """Looks with each frame that is drawn; the value of the condition when it is true."""
        look = f"() => {{ try {{ return {condition}; }} catch {{ return false; }} }}"
        script = f"""new Promise((done) => {{
            const holds = {look};
            const look = () => {{ const value = holds(); value ? done(value) : requestAnimationFrame(look); }};
            look();
        }})"""
        try:
            return await self.run(script)
        except trio.TooSlowError:
            page = await self.run("document.body.innerText")
            raise AssertionError(f"{condition} never came true; the page says\n{page}\n{self.problems}") from None

    async def text(self, selector):
        return await self.run(f"document.querySelector({json.dumps(selector)})?.innerText")

    async def click(self, selector):
        await self.run(f"document.querySelector({json.dumps(selector)}).click()")

    async def press(self, key):
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    async def screenshot(self):
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])


KEYS = {"Tab": 9, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}

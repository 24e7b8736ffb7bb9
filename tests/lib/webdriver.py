"""webdriver -- headless Chromium for tests, by chromedriver and the W3C WebDriver protocol; standard library only.

    with Browser(folder) as b:
        b.open('http://127.0.0.1:1234/')
        b.click('text=Compare')

Nothing beyond loopback can be reached from the browser: names do not resolve, and requests() has what was tried."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'
KEYS = {'Tab': '\ue004', 'Enter': '\ue007', 'Escape': '\ue00c', 'Space': ' ', 'Shift': '\ue008', 'Right': '\ue014', 'Down': '\ue015'}


class Missing(Exception):
    """Chromium or chromedriver is absent, or does not start here."""


class Failed(AssertionError):
    pass


def program(*names):
    found = next((p for p in map(shutil.which, names) if p), None)
    if not found:
        raise Missing(f'{names[0]} is not installed')
    return found


class Browser:
    """A session of a browser with an own, empty profile in `folder`."""

    def __init__(self, folder, width=1280, height=900, dark=False, limit=600):
        self.folder = os.path.abspath(folder)
        self.limit = limit  # seconds for anything that is waited for
        os.makedirs(self.folder, exist_ok=True)
        self.log = open(os.path.join(self.folder, 'chromedriver.log'), 'w')
        self.chromium, driver = program('chromium', 'chromium-browser', 'google-chrome'), program('chromedriver')
        # Chromium has a socket in there, whose path may have at most 107 bytes: `folder` is too deep.
        self.scratch = tempfile.mkdtemp()
        self.driver = subprocess.Popen([driver, '--port=0'], stdout=subprocess.PIPE, stderr=self.log,
                                       env={**os.environ, 'HOME': self.folder, 'TMPDIR': self.scratch}, start_new_session=True)
        self.session = None
        try:
            self.base = f'http://127.0.0.1:{self._port()}'
            self._start(width, height)
            self.devtools('Page.setDownloadBehavior', behavior='allow', downloadPath=f'{self.folder}/downloads')
            self.size(width, height)
            self.colours(dark)
        except BaseException:
            self.close()
            raise

    def _port(self):
        for line in self.driver.stdout:
            words = line.decode().strip().rstrip('.').split()
            if b'successfully' in line and words[-1].isdigit():
                return int(words[-1])
        raise Missing('chromedriver ended at once')

    def _start(self, width, height):
        arguments = ['--headless=new', '--incognito', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
                     '--disable-component-update', '--disable-sync', '--disable-default-apps', '--disable-domain-reliability',
                     '--no-default-browser-check', '--disable-dev-shm-usage', '--force-color-profile=srgb', '--hide-scrollbars',
                     '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1', '--proxy-server=direct://', '--lang=en-GB',
                     f'--user-data-dir={self.folder}/profile', f'--window-size={width},{height}']
        if os.geteuid() == 0:
            arguments.append('--no-sandbox')
        wanted = {'browserName': 'chrome', 'goog:loggingPrefs': {'performance': 'ALL', 'browser': 'ALL'},
                  'goog:chromeOptions': {'binary': self.chromium, 'args': arguments,
                                         'perfLoggingPrefs': {'enableNetwork': True, 'enablePage': False}}}
        try:
            self.session = self._ask('POST', '/session', {'capabilities': {'alwaysMatch': wanted}})['sessionId']
        except Failed as e:  # as where its sandbox may not have namespaces
            raise Missing(f'chromium does not start here: {e}') from e

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.session:
            try:
                self._ask('DELETE', '')
            except Exception:
                pass
        self.driver.terminate()
        try:
            self.driver.wait(20)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            self.driver.wait()
        self.driver.stdout.close()
        self.log.close()
        while os.path.exists(self.scratch):  # a process of chromium that still ends may add a file meanwhile
            shutil.rmtree(self.scratch, ignore_errors=True)

    # The protocol.

    def _ask(self, method, path, body=None):
        where = path if path == '/session' else f'/session/{self.session}{path}'
        data = None if method in ('GET', 'DELETE') else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + where, data, {'Content-Type': 'application/json'}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=self.limit * 2) as answer:
                return json.load(answer)['value']
        except urllib.error.HTTPError as e:
            said = json.load(e)['value']
            raise Failed(f"{said['error']}: {said['message'].splitlines()[0]}") from None

    def devtools(self, command, **params):
        return self._ask('POST', '/goog/cdp/execute', {'cmd': command, 'params': params})

    # What a person does.

    def open(self, url):
        self._ask('POST', '/url', {'url': url})

    def back(self):
        self._ask('POST', '/back')

    def size(self, width, height):
        """Of the viewport; a phone's width too, below the least that a window has."""
        self.devtools('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)

    def colours(self, dark):
        """The system's setting."""
        self.devtools('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def find(self, what):
        """Elements by CSS, or of a text: 'button=Cancel' has this text or label, 'a~Compare' contains it."""
        for sign, test in (('=', 'name === text'), ('~', 'name.includes(text)')):
            tag, _, text = what.partition(sign)
            if text and tag.replace('-', '').isalnum():
                return self.script(f"""const text = arguments[1];
                    return [...document.querySelectorAll(arguments[0])].filter((e) => [e.textContent.trim(), e.getAttribute('aria-label') || '']
                        .some((name) => {test}) && e.getClientRects().length)""", tag, text)
        return self._ask('POST', '/elements', {'using': 'css selector', 'value': what})

    def wait(self, what, of=None, limit=None):
        """The value of a function, or the first of these elements, as soon as there is one."""
        end = time.monotonic() + (limit or self.limit)
        error = None
        while time.monotonic() < end:
            try:
                found = what() if callable(what) else (self.find(what) or [None])[0]
                if found:
                    return found
            except Failed as e:  # an element that was replaced meanwhile
                error = e
            time.sleep(0.05)
        raise Failed(f"waited in vain for {of or what}{f' ({error})' if error else ''}; the page shows:\n{self.text()[:3000]}")

    def click(self, what):
        def attempt():
            found = self.find(what)
            if found:
                self._ask('POST', f'/element/{found[0][ELEMENT]}/click')
            return bool(found)
        self.wait(attempt, f'{what} to be clicked')

    def type(self, what, text, clear=True):
        element = self.wait(what)[ELEMENT]
        if clear:
            self._ask('POST', f'/element/{element}/clear')
        self._ask('POST', f'/element/{element}/value', {'text': text})

    def keys(self, *names):
        """Keys one after the other; 'Shift+Tab' holds the first."""
        actions = []
        for name in names:
            held = [KEYS.get(k, k) for k in name.split('+')]
            actions += [{'type': 'keyDown', 'value': k} for k in held] + [{'type': 'keyUp', 'value': k} for k in reversed(held)]
        self._ask('POST', '/actions', {'actions': [{'type': 'key', 'id': 'keyboard', 'actions': actions}]})

    def drag(self, what, start, end, is_down=False):
        """With the mouse, across an element, from and to shares of its width, or down it, of its height."""
        box = self.script('const e = document.querySelector(arguments[0]); e.scrollIntoView({block: "center"}); '
                          'const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]', what)
        points = [[int(box[0] + (0.5 if is_down else share) * box[2]), int(box[1] + (share if is_down else 0.5) * box[3])]
                  for share in (start, (start + end) / 2, end)]
        moves = [{'type': 'pointerMove', 'x': x, 'y': y, 'duration': 30} for x, y in points]
        self._ask('POST', '/actions', {'actions': [{'type': 'pointer', 'id': 'mouse', 'parameters': {'pointerType': 'mouse'}, 'actions':
                  [moves[0], {'type': 'pointerDown', 'button': 0}, *moves[1:], {'type': 'pointerUp', 'button': 0}]}]})

    # What is seen.

    def script(self, text, *arguments):
        return self._ask('POST', '/execute/sync', {'script': text, 'args': list(arguments)})

    def script_async(self, text, *arguments):
        """The last argument of the script is the function that takes its value."""
        return self._ask('POST', '/execute/async', {'script': text, 'args': list(arguments)})

    def text(self, what='body'):
        return self.script('return document.querySelector(arguments[0])?.innerText || ""', what)

    def address(self):
        return self._ask('GET', '/url')

    def screenshot(self, path, full=False):
        if full:
            height = self.script('return document.documentElement.scrollHeight')
            shot = self.devtools('Page.captureScreenshot', captureBeyondViewport=True, clip={
                'x': 0, 'y': 0, 'width': self.script('return innerWidth'), 'height': height, 'scale': 1})['data']
        else:
            shot = self._ask('GET', '/screenshot')
        with open(path, 'wb') as f:
            f.write(base64.b64decode(shot))

    def requests(self):
        """The URLs that pages have asked for since the last call, without the browser's own first tab."""
        events = [json.loads(e['message'])['message'] for e in self._ask('POST', '/se/log', {'type': 'performance'})]
        return [e['params']['request']['url'] for e in events if e['method'] == 'Network.requestWillBeSent'
                and not e['params']['request']['url'].startswith('chrome')]

    def errors(self):
        """What the console has complained about since the last call."""
        return [e['message'] for e in self._ask('POST', '/se/log', {'type': 'browser'}) if e['level'] in ('SEVERE', 'WARNING')]

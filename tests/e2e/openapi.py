"""Checks that an agent answers every route of its /openapi.json as the document describes.

usage: openapi.py HOST:PORT TOKEN ENDED RUNNING: the ids of a job that has succeeded and of one that runs. Exit status 77: no
fault, but the documents were not compared with their schemas, because Python's jsonschema is not installed."""
import hashlib
import http.client
import json
import re
import sys

try:
    import jsonschema
except ImportError:
    jsonschema = None

address, token, ended, running = sys.argv[1:]
bytes_ = b"bytes of a blob"
digest = hashlib.sha256(bytes_).hexdigest()
other = hashlib.sha256(b"other bytes").hexdigest()
waiting = "j-openapi"
reservation = {"id": waiting, "attempt": 1, "node": 0, "role": "worker", "node_count": 1, "codec": "plain"}
secret = "0" * 64
nonce = "A" * 43

# In this order: METHOD, target, body, headers, status that is expected.
calls = [
    ("GET", "/", None, {}, 200),
    ("GET", "/healthz", None, {}, 200),
    ("GET", "/readyz", None, {}, 200),
    ("GET", "/metrics", None, {}, 200),
    ("GET", "/openapi.json", None, {}, 200),
    ("GET", "/problems/GONE", None, {}, 200),
    ("GET", "/problems/GONE", None, {"Accept": "text/html"}, 200),
    ("GET", "/problems/NOTHING", None, {}, 404),
    ("GET", "/v1/status", None, {}, 200),
    ("GET", "/v1/agent", None, {}, 200),
    ("POST", "/v1/queue?timeout_s=0.01", {"queue": "q-abcdef", "submitter": "ann@here", "waiting": 1, "jobs": []}, {}, 200),
    ("GET", "/v1/queue", None, {}, 200),
    ("POST", "/v1/queue", {"queue": "q-abcdef", "waiting": 0}, {}, 200),
    ("POST", "/v1/queue", {"waiting": 0}, {}, 422),
    ("POST", "/v1/queue?timeout_s=x", {"queue": "q-abcdef", "waiting": 0}, {}, 400),
    ("GET", "/v1/agent/runner", None, {}, 200),
    ("GET", "/v1/agent/trainers", None, {}, 200),
    ("GET", "/v1/jobs", None, {}, 200),
    ("GET", "/v1/jobs?state=running&limit=1", None, {}, 200),
    ("GET", "/v1/jobs?state=nonsense", None, {}, 400),
    ("GET", f"/v1/prove?nonce={nonce}&key=00000000", None, {}, 404),
    ("GET", f"/v1/prove?nonce={nonce}&key=" + hashlib.sha256(hashlib.sha256(token.encode()).digest()).hexdigest()[:8], None, {}, 200),
    ("POST", "/v1/join", {"code": nonce, "name": "x"}, {}, 409),
    ("POST", "/v1/jobs", reservation, {}, 201),
    ("POST", "/v1/jobs", reservation, {}, 200),
    ("POST", "/v1/jobs", {**reservation, "name": "another"}, {}, 409),
    ("POST", "/v1/jobs", {"id": "j-second"}, {}, 422),
    ("POST", "/v1/jobs", {**reservation, "id": "j-second", "no_queue": True}, {}, 409),
    ("GET", f"/v1/jobs/{waiting}", None, {}, 200),
    ("GET", f"/v1/jobs/{ended}", None, {}, 200),
    ("GET", f"/v1/jobs/{running}", None, {}, 200),
    ("GET", f"/v1/jobs/{running}", None, {"X-Job-Attempt": "9"}, 404),
    ("GET", "/v1/jobs/j-unknown", None, {}, 404),
    ("GET", f"/v1/jobs/{waiting}/wait?timeout_s=0.01", None, {}, 200),
    ("GET", f"/v1/jobs/{ended}/events?after=3", None, {}, 200),
    ("GET", f"/v1/jobs/{ended}/events", None, {"Accept": "application/x-ndjson"}, 200),
    ("GET", f"/v1/jobs/{ended}/logs?after=10", None, {}, 200),
    ("GET", f"/v1/jobs/{ended}/records.csv?kind=eval", None, {}, 200),
    ("GET", f"/v1/jobs/{ended}/records.csv?kind=nothing", None, {}, 400),
    ("GET", f"/v1/jobs/{ended}/artifacts", None, {}, 200),
    ("GET", f"/v1/jobs/{ended}/artifacts/final.safetensors", None, {}, 200),
    ("GET", f"/v1/jobs/{ended}/metrics?points=20", None, {}, 200),
    ("GET", f"/v1/jobs/{ended}/metrics?file=eval&names=loss,accuracy&x=bytes", None, {}, 200),
    ("GET", f"/v1/jobs/{running}/metrics?x=time&from=0&to=1e3", None, {}, 200),
    ("GET", f"/v1/jobs/{running}/metrics?names=nothing", None, {}, 400),
    ("GET", f"/v1/jobs/{running}/model", None, {}, 200),
    ("GET", f"/v1/jobs/{ended}/model", None, {}, 409),
    ("HEAD", f"/v1/blobs/sha256/{digest}", None, {}, 404),
    ("PUT", f"/v1/blobs/sha256/{digest}", bytes_, {}, 201),
    ("PUT", f"/v1/blobs/sha256/{digest}", bytes_, {}, 200),
    ("HEAD", f"/v1/blobs/sha256/{digest}", None, {}, 200),
    ("PUT", f"/v1/blobs/sha256/{other}", bytes_, {}, 422),
    ("PUT", f"/v1/jobs/{waiting}/packages", {"packages": {"settings": {"files": {"settings.json": other}}}}, {}, 200),
    ("PUT", f"/v1/jobs/{waiting}/packages", {"packages": {"settings": {"files": {"settings.json": digest}}}}, {}, 200),
    ("PUT", f"/v1/jobs/{waiting}/packages", {"packages": {"settings": {}}}, {}, 422),
    ("PUT", f"/v1/jobs/{waiting}/packages/settings", {"files": {"settings.json": digest}}, {}, 204),
    ("PUT", f"/v1/jobs/{waiting}/packages/settings", {"files": {"settings.json": other}}, {}, 404),
    ("PUT", f"/v1/jobs/{waiting}/packages/settings", {"files": {"settings": digest}}, {}, 422),
    ("POST", f"/v1/jobs/{waiting}/start", {"attempt": 1, "secret": secret, "peers": f"0 a:1 a 1 {secret}"}, {}, 409),
    ("DELETE", f"/v1/jobs/{waiting}", None, {}, 409),
    ("POST", f"/v1/jobs/{waiting}/cancel", {"reason": "enough"}, {}, 202),
    ("POST", f"/v1/jobs/{waiting}/cancel", None, {}, 200),
    ("DELETE", f"/v1/jobs/{waiting}", None, {}, 204),
    ("GET", f"/v1/jobs/{waiting}", None, {}, 410),
    ("POST", "/v1/agent/drain", None, {}, 200),
    ("GET", "/readyz", None, {}, 503),
    ("POST", "/v1/jobs", {**reservation, "id": "j-second"}, {}, 503),
    ("POST", "/v1/agent/resume", None, {}, 200),
]


def ask(method, target, body=None, headers=None, with_token=True):
    """-> status, headers, body"""
    headers = dict(headers or {})
    if with_token:
        headers["Authorization"] = "Bearer " + token
    if body is not None:
        headers["Content-Type"] = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        body = body if isinstance(body, bytes) else json.dumps(body)
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(method, target, body, headers)
    response = connection.getresponse()
    answer = response.status, response.headers, response.read()
    connection.close()
    return answer


document = json.loads(ask("GET", "/openapi.json")[2])


def operation_of(method, target):
    path = target.split("?")[0]
    fitting = [p for p in document["paths"] if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", p), path)]
    best = min(fitting, key=lambda p: p.count("{"))
    return best, document["paths"][best][method.lower()]


def check_query(operation, target):
    names = {document["components"]["parameters"][p["$ref"].split("/")[-1]]["name"] for p in operation["parameters"]}
    for pair in target.split("?")[1].split("&") if "?" in target else []:
        assert pair.split("=")[0] in names, f"{target}: {pair} is not in the document"


def check_answer(operation, method, status, headers, body):
    assert str(status) in operation["responses"], f"{status} is not in the document"
    contents = operation["responses"][str(status)].get("content", {})
    if not contents or method == "HEAD":
        assert body == b"", "a body, which is not in the document"
        return
    type_ = headers["Content-Type"].split(";")[0]
    assert type_ in contents or "*/*" in contents, f"{type_} is not in the document"
    schema = contents.get(type_, {}).get("schema")
    if schema and jsonschema:
        jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(json.loads(body))


def validate(text, name):
    if jsonschema:
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))


called = set()
for method, target, body, headers, expected in calls:
    try:
        path, operation = operation_of(method, target)
        check_query(operation, target)
        status, got, answer = ask(method, target, body, headers)
        assert status == expected, f"{status}, not {expected}: {answer[:300]}"
        check_answer(operation, method, status, got, answer)
        if got["Content-Type"] == "application/x-ndjson":
            for line in answer.splitlines():
                if line:
                    validate(line, "Event")
        if status < 300:
            called.add((method, path))
        if method == "GET":
            status, got, answer = ask("HEAD", target, None, headers)
            check_answer(operation, "HEAD", status, got, answer)
            assert status == expected, f"HEAD: {status}, not {expected}"
        if operation["security"] == [{"token": []}]:
            status, got, answer = ask(method, target, body, headers, with_token=False)
            assert status == 401, f"{status} without a token"
            check_answer(operation, method, status, got, answer)
    except Exception as e:
        sys.exit(f"{method} {target}: {e}")

# What needs TLS, or a job in a state of a moment, is tried elsewhere.
elsewhere = {("POST", "/v1/join"), ("POST", "/v1/jobs/{id}/start")}
declared = {(m.upper(), p) for p, methods in document["paths"].items() for m in methods}
assert declared - called == elsewhere, f"routes that nothing was asked of: {declared - called - elsewhere}"
for code in document["components"]["schemas"]["ProblemCode"]["enum"]:
    assert ask("GET", f"/problems/{code}")[0] == 200, code
try:
    import openapi_spec_validator

    openapi_spec_validator.validate(document)
except ImportError:
    print("openapi_spec_validator is not installed: the document itself was not validated")
sys.exit(0 if jsonschema else 77)

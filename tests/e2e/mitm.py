#!/usr/bin/env python3
"""A program at the address of an agent: mitm.py KIND SAW [HOST:PORT CERTIFICATE KEY].

Prints its port on 127.0.0.1 (or on LISTEN), and writes every byte that a client sends, of TLS the plain text, to SAW.
fake: answers plain HTTP with 200. fake-tls: the same inside TLS of its own. relay: passes bytes on, as a tunnel does.
relay-tls: answers the client's TLS with its own certificate, and uses TLS with the agent; if DATA_PORT is set, it replaces the data
ports in the agent's answers. tls12: as fake-tls, at most TLS 1.2.
"""
import os
import re
import socket
import ssl
import sys
import threading

KIND, SAW = sys.argv[1:3]
saw = open(SAW, "ab", buffering=0)
server = None
if KIND in ("fake-tls", "relay-tls", "tls12"):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(sys.argv[4], sys.argv[5])
    if KIND == "tls12":
        server.maximum_version = ssl.TLSVersion.TLSv1_2


def forged(found):
    port = os.environ["DATA_PORT"].encode()
    return b'"data_port":' + port.rjust(len(found[0]) - len(b'"data_port":'))


def pump(source, sink, log):
    try:
        while data := source.recv(65536):
            if log:
                saw.write(data)
            elif "DATA_PORT" in os.environ:
                data = re.sub(rb'"data_port": *([0-9]+)', forged, data)
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def upstream():
    host, port = sys.argv[3].rsplit(":", 1)
    end = socket.create_connection((host, int(port)))
    if KIND == "relay-tls":
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.verify_mode = ssl.CERT_NONE
        end = client.wrap_socket(end)
    return end


def answer(client):
    while data := client.recv(65536):
        saw.write(data)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")


def serve(client):
    try:
        if server:
            client = server.wrap_socket(client, server_side=True)
        if KIND in ("relay", "relay-tls"):
            end = upstream()
            threading.Thread(target=pump, args=(end, client, False), daemon=True).start()
            pump(client, end, True)
        else:
            answer(client)
    except OSError as error:
        saw.write(f"[{error}]\n".encode())
    finally:
        client.close()


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((os.environ.get("LISTEN", "127.0.0.1"), int(os.environ.get("PORT", "0"))))
listener.listen(64)
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

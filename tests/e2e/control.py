"""A control socket of the tests' own, which says what a real daemon seldom does."""

import socket
import threading


class Control:
    """A control socket that gives one answer to every line and remembers the lines."""

    def __init__(self, path, answer):
        self.lines = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen()
        self.answer = answer
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                self.lines.append(client.makefile().readline())
                client.sendall(self.answer)

"""A control socket of the tests' own, which says what a real daemon seldom does."""

import socket
import threading


class Control:
    """A control socket that remembers the lines it gets and answers each: with the same words, or with the next of a list,
    whose last ones stay."""

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
                answers = self.answer if isinstance(self.answer, list) else [self.answer]
                client.sendall(answers[min(len(self.lines), len(answers)) - 1])

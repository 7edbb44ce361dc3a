"""A grpcio client in a process of its own that obeys: a line of JSON on stdin is a command, and gets a line on stdout.

The bootstrap comes by the environment. `begin` opens the channel, `calls` makes unary calls one after the other; a
call that waits for ready begins with `wait` and is looked at with `waited`; a stream is open from `open` to `shut`.
An outcome is a code, the reply or the details, and the values of `set-cookie`.
"""

import json
import queue
import sys
import threading

import grpc

PENDING = ["PENDING", "", []]


class Driven:
    def __init__(self, target, options):
        self.channel = grpc.insecure_channel(target, options=list(options.items()))
        self.waiting = {}
        self.streams = {}

    def calls(self, calls, timeout):
        return [[self.outcome(path, metadata, timeout) for _ in range(times)] for path, metadata, times in calls]

    def outcome(self, path, metadata, timeout):
        try:
            return succeeded(*self.channel.unary_unary(path).with_call(b"x", metadata=metadata, timeout=timeout))
        except grpc.RpcError as error:
            return failed(error)

    def wait(self, name, path, deadline):
        self.waiting[name] = self.channel.unary_unary(path).future(b"x", wait_for_ready=True, timeout=deadline)

    def waited(self, name, timeout):
        call = self.waiting[name]
        try:
            return succeeded(call.result(timeout), call)
        except grpc.FutureTimeoutError:
            return PENDING
        except grpc.RpcError as error:
            return failed(error)

    def forget(self, name):
        self.waiting.pop(name).cancel()

    def open(self, name, path, timeout):
        self.streams[name] = Stream(self.channel, path)
        return self.talk(name, timeout)

    def talk(self, name, timeout):
        return self.streams[name].talk(timeout)

    def shut(self, name):
        self.streams.pop(name).call.cancel()


class Stream:
    """A bidi call, whose replies wait in a queue."""

    def __init__(self, channel, path):
        self.requests, self.replies = queue.Queue(), queue.Queue()
        self.call = channel.stream_stream(path)(iter(self.requests.get, None))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for reply in self.call:
                self.replies.put(["OK", reply.decode(), []])
            self.replies.put(["OVER", "", []])
        except grpc.RpcError as error:
            self.replies.put(failed(error))

    def talk(self, timeout):
        self.requests.put(b"x")
        try:
            return self.replies.get(timeout=timeout)
        except queue.Empty:
            return PENDING


def succeeded(reply, call):
    return ["OK", reply.decode(), [value for key, value in call.initial_metadata() if key == "set-cookie"]]


def failed(error):
    return [error.code().name, error.details(), []]


def main():
    driven = None
    for line in sys.stdin:
        operation, *arguments = json.loads(line)
        if operation == "begin":
            driven, answer = Driven(*arguments), None
        else:
            answer = getattr(driven, operation)(*arguments)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

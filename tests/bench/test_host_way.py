"""What the tracer of a batch's way counts, and that there is a way to trace."""

import sys
import threading

from bench.host.way import Tracer, main, sql_way, stream_way

TRACED = """
class C:
    def method(self):
        return list(numbers()) + [(lambda: k)() for k in range(3)]
def numbers():
    yield 1
    yield 2
"""


def module(name: str, file: str = "x.py") -> dict:
    scope = {"__name__": name}
    exec(compile(TRACED, file, "exec"), scope)
    return scope


def traced(do) -> dict[str, int]:
    tracer = Tracer()
    with tracer.installed():
        do()  # nothing counts yet
        with tracer.tracing() as way:
            do()
    return {code.co_qualname: count for (code, _, _), count in way.calls.items()}


class TestTracer:
    def test_named_functions_of_penstock(self):
        assert traced(module("penstock.x")["C"]().method) == {"C.method": 1, "numbers": 1}
        assert not traced(module("bench.x")["C"]().method)
        assert not traced(module("penstock.x", "<string>")["C"]().method)  # in no file

    def test_threads_and_what_is_not_seen(self):
        method = module("penstock.a.b")["C"]().method
        tracer, go, gone = Tracer(), threading.Event(), threading.Event()

        def in_a_thread():
            go.wait()
            method()
            gone.set()

        with tracer.installed():
            thread = threading.Thread(target=in_a_thread, name="worker")
            thread.start()
            with tracer.tracing() as way, tracer.unseen():
                method()
                go.set()
                gone.wait()
            method()
            thread.join()
        assert way.threads == {"worker": 2}
        assert [code.co_name for code in way.functions] == ["method", "numbers"]
        assert way.packages == ["penstock.a"]
        assert way.files == {"x.py"}
        assert [line.split() for line in way.listing().splitlines()] == [
            ["worker", "1", "penstock.a.b:C.method"],
            ["worker", "1", "penstock.a.b:numbers"],
        ]

    def test_what_was_told_before_is_told_again(self):
        before = sys.getprofile(), threading.getprofile()
        with Tracer().installed():
            assert sys.getprofile() is not before[0]
        assert (sys.getprofile(), threading.getprofile()) == before


def test_a_stream_with_a_latency_target():
    way = stream_way(0.005)
    assert way.rows > 0
    names = [code.co_name for code in way.functions]
    assert names[0] == "push"
    assert "poll" in names
    assert len(way.threads) > 1


def test_tables():
    way = sql_way()
    assert way.rows > 1000
    assert way.functions[0].co_name == "sql"


def test_command(capsys):
    assert main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert "stream, 10 rows, latency 0: " in printed
    assert "SerialStream.push" in printed

"""kazoo_bench.py <hosts>: kazoo's locks under load. Lines and answers are those of ../peer.mjs,
parameters those of drive.mjs: a thread for each caller."""

import bisect
import itertools
import json
import math
import random
import sys
import threading
import time

from kazoo.client import KazooClient

HOSTS = sys.argv[1]
threading.stack_size(256 * 1024)


def connect():
    client = KazooClient(hosts=HOSTS, timeout=30)
    client.start(timeout=30)
    return client


client = connect()


def now():
    """Milliseconds on the clock of clock.mjs."""
    return time.monotonic() * 1000


class Times:
    def __init__(self, window):
        self.window = window
        self.cycles = []
        self.waits = []
        self.longest = 0

    def add(self, asked, granted, done):
        self.longest = max(self.longest, granted - asked)
        if self.window[0] <= done < self.window[1]:
            self.cycles.append(done - asked)
            self.waits.append(granted - asked)

    def result(self):
        return {
            "shares": [len(self.cycles)],
            "p50": percentile(self.cycles, 0.5),
            "p99": percentile(self.cycles, 0.99),
            "p999": percentile(self.cycles, 0.999),
            "waitP50": percentile(self.waits, 0.5),
            "longestWait": self.longest,
        }


def percentile(values, part):
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)] if values else None


def in_threads(works):
    failures = []

    def guarded(work):
        try:
            work()
        except BaseException as failure:  # noqa: B902 -- reported by the caller
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def lock_for(kind, path, permits):
    if kind == "semaphore":
        return client.Semaphore(path, max_leases=permits)
    return {"mutex": client.Lock, "read": client.ReadLock}[kind](path)


def zipf_keys(keys, exponent):
    """Returns a function that draws a key by Zipf's law, as drive.mjs does."""
    sums = list(itertools.accumulate((key + 1) ** -exponent for key in range(keys)))
    return lambda: bisect.bisect_right(sums, random.random() * sums[-1])


def run(path, lock, callers, keys, until, times, pace=0, permits=0, zipf=0, **_):
    callers, keys, pace, until = int(callers), int(keys), float(pace), float(until)
    draw = zipf_keys(keys, float(zipf)) if zipf else None

    def call(caller):
        turn = 0
        while now() < until:
            if pace:
                time.sleep(pace / 1000 * (0.5 + random.random()))
            key = draw() if draw else (caller + turn * callers) % keys
            one = lock_for(lock, "%s/%d" % (path, key), int(permits))
            asked = now()
            one.acquire()
            granted = now()
            one.release()
            times.add(asked, granted, now())
            turn += 1

    in_threads([lambda caller=caller: call(caller) for caller in range(callers)])


def elect(path, participants, until, times, **_):
    """Each leads as soon as it may, and resigns at once: how long nobody leads."""
    clients = [connect() for _ in range(int(participants))]
    last = []

    def lead():
        started = now()
        if last:
            times.add(last.pop(), started, started)
        last.append(now())

    def take_part(participant):
        election = participant.Election(path)
        while now() < float(until):
            election.run(lead)

    in_threads([lambda one=one: take_part(one) for one in clients])
    for one in clients:
        one.stop()
        one.close()


print("ready", flush=True)
for line in sys.stdin:
    number, request, *words = line.split()
    parameters = dict(word.split("=", 1) for word in words)
    times = Times((float(parameters.pop("from")), float(parameters["until"])))
    try:
        {"run": run, "elect": elect}[request](times=times, **parameters)
        print(number, "ok", json.dumps(times.result()), flush=True)
    except Exception as failure:  # reported by the caller
        print(number, "error", repr(failure), flush=True)

"""What applications do with kazoo, a scenario at a time: kazoo_scenarios.py <hosts> <scenario>."""

import contextlib
import logging
import sys
import threading

from kazoo import exceptions
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, RolledBackError
from kazoo.security import CREATOR_ALL_ACL, make_digest_acl

HOSTS = sys.argv[1]
PATIENCE = 60
clients = []


def connect(**options):
    client = KazooClient(hosts=HOSTS, timeout=10, **options)
    client.start(timeout=PATIENCE)
    clients.append(client)
    return client


def in_parallel(*works):
    """Runs each in a thread of its own, and fails if one of them does."""
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
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread does not end"
    if failures:
        raise failures[0]


@contextlib.contextmanager
def fails(error):
    try:
        yield
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


class Room:
    """Counts who is inside, and who was."""

    def __init__(self, size=1):
        self.size = size
        self.inside = 0
        self.most = 0
        self.visits = 0
        self.full = threading.Event()
        self.mutex = threading.Lock()

    def visit(self):
        with self.mutex:
            self.inside += 1
            self.visits += 1
            self.most = max(self.most, self.inside)
            if self.inside == self.size:
                self.full.set()
        # The first party stays inside, because on a slow server the two might never be inside together.
        self.full.wait(PATIENCE)
        threading.Event().wait(0.005)
        with self.mutex:
            self.inside -= 1
        assert self.most <= self.size, f"{self.most} inside"


def nodes():
    zk = connect()
    assert zk.server_version()[:2] == (3, 8)
    path, stat = zk.create("/kazoo/n/a", b"one", makepath=True, include_data=True)
    assert (path, stat.version) == ("/kazoo/n/a", 0)
    assert zk.create("/kazoo/n/s-", sequence=True).endswith("s-0000000001")
    assert zk.set("/kazoo/n/a", b"two").version == 1
    data, stat = zk.get("/kazoo/n/a")
    assert (data, stat.data_length) == (b"two", 3)
    names, stat = zk.get_children("/kazoo/n", include_data=True)
    assert sorted(names) == ["a", "s-0000000001"] and stat.numChildren == 2
    with fails(NodeExistsError):
        zk.create("/kazoo/n/a")
    with fails(BadVersionError):
        zk.set("/kazoo/n/a", b"", version=7)
    with fails(NoNodeError):
        zk.get("/kazoo/none")
    with fails(exceptions.NotEmptyError):
        zk.delete("/kazoo/n")
    zk.sync("/kazoo")
    zk.delete("/kazoo/n", recursive=True)
    assert zk.exists("/kazoo/n") is None
    assert b"imok" in zk.command(b"ruok").encode()


def acls():
    zk, other = connect(auth_data=[("digest", "ben:secret")]), connect()
    zk.create("/kazoo/secret", b"x", acl=[make_digest_acl("ben", "secret", all=True)], makepath=True)
    # kazoo writes the empty id of this ACL as a null string.
    zk.create("/kazoo/creator", b"x", acl=CREATOR_ALL_ACL)
    for path in ["/kazoo/secret", "/kazoo/creator"]:
        acl, _ = zk.get_acls(path)
        assert [(each.id.scheme, each.id.id[:4]) for each in acl] == [("digest", "ben:")]
        with fails(exceptions.NoAuthError):
            other.get(path)
    other.add_auth("digest", "ben:secret")
    assert other.get("/kazoo/secret")[0] == b"x"


def transaction():
    zk = connect()
    zk.ensure_path("/kazoo/t")
    together = zk.transaction()
    together.create("/kazoo/t/a", b"x")
    together.set_data("/kazoo/t/a", b"y", 0)
    together.check("/kazoo/t/a", 1)
    together.create("/kazoo/t/s-", sequence=True)
    together.create("/kazoo/t/e", ephemeral=True)
    together.delete("/kazoo/t/e")
    results = together.commit()
    assert results[0] == "/kazoo/t/a" and results[1].version == 1 and results[2] is True
    assert results[3].startswith("/kazoo/t/s-") and results[5] is True
    failing = zk.transaction()
    failing.create("/kazoo/t/b")
    failing.check("/kazoo/t/a", 9)
    failing.create("/kazoo/t/c")
    kinds = [type(result) for result in failing.commit()]
    assert kinds == [RolledBackError, BadVersionError, exceptions.RuntimeInconsistency], kinds
    assert zk.exists("/kazoo/t/b") is None


def watchers():
    zk, other = connect(), connect()
    zk.ensure_path("/kazoo/w")
    data, children, done = [], [], threading.Event()

    def note():
        if data[-1:] == [b"two"] and children[-1:] == [["b"]]:
            done.set()

    @zk.DataWatch("/kazoo/w")
    def on_data(value, stat):
        data.append(value)
        note()

    @zk.ChildrenWatch("/kazoo/w")
    def on_children(names):
        children.append(sorted(names))
        note()

    other.set("/kazoo/w", b"one")
    other.create("/kazoo/w/a")
    other.create("/kazoo/w/b", ephemeral=True)
    other.delete("/kazoo/w/a")
    other.set("/kazoo/w", b"two")
    assert done.wait(PATIENCE), (data, children)


def recipes():
    """Four clients contend for each recipe, and none is inside too often."""

    def contended(use, size, visits):
        room = Room(size)
        in_parallel(*[lambda zk=connect(): use(zk, room) for _ in range(4)])
        assert (room.visits, room.most) == (visits, size)

    def within(make):
        def use(zk, room):
            for _ in range(10):
                with make(zk):
                    room.visit()

        return use

    def meet(zk, room):
        gate = zk.DoubleBarrier("/kazoo/double", 4)
        gate.enter()
        together.wait(PATIENCE)
        room.visit()
        gate.leave()

    together = threading.Barrier(4)
    contended(within(lambda zk: zk.Lock("/kazoo/lock", "me")), 1, 40)
    contended(within(lambda zk: zk.Semaphore("/kazoo/semaphore", max_leases=2)), 2, 40)
    contended(lambda zk, room: zk.Election("/kazoo/election").run(room.visit), 1, 4)
    contended(meet, 4, 4)


def lock():
    holder, waiter = connect().Lock("/kazoo/lock", "holder"), connect().Lock("/kazoo/lock", "waiter")
    holder.acquire()
    assert waiter.acquire(blocking=False) is False
    with fails(exceptions.LockTimeout):
        waiter.acquire(timeout=0.1)
    assert holder.contenders() == ["holder"]
    in_parallel(lambda: waiter.acquire(timeout=PATIENCE), holder.release)
    assert waiter.is_acquired
    waiter.release()


def read_write_lock():
    """One after the other: in kazoo 2.8 a reader waits for a writer behind it (python-zk/kazoo issue 649)."""
    reader, other = connect().ReadLock("/kazoo/rw"), connect().ReadLock("/kazoo/rw")
    writer = connect().WriteLock("/kazoo/rw")
    assert reader.acquire(timeout=PATIENCE) and other.acquire(timeout=PATIENCE)
    with fails(exceptions.LockTimeout):
        writer.acquire(timeout=0.1)
    reader.release()
    in_parallel(lambda: writer.acquire(timeout=PATIENCE), other.release)
    assert writer.is_acquired
    with fails(exceptions.LockTimeout):
        reader.acquire(timeout=0.1)
    in_parallel(lambda: reader.acquire(timeout=PATIENCE), writer.release)
    assert reader.is_acquired
    reader.release()


def barrier():
    zk, other = connect(), connect()
    held = zk.Barrier("/kazoo/barrier")
    held.create()
    assert other.Barrier("/kazoo/barrier").wait(0.1) is False
    passed = []
    in_parallel(
        lambda: passed.append(other.Barrier("/kazoo/barrier").wait(PATIENCE)),
        held.remove,
    )
    assert passed == [True]


def queue():
    zk, other = connect(), connect()
    waiting = other.LockingQueue("/kazoo/queue")
    values = []

    def consume():
        for _ in range(3):
            values.append(waiting.get(timeout=PATIENCE))
            assert waiting.consume()

    in_parallel(consume, lambda: zk.LockingQueue("/kazoo/queue").put_all([b"a", b"b", b"c"]))
    assert sorted(values) == [b"a", b"b", b"c"]


def counter():
    def count():
        total = connect().Counter("/kazoo/counter")
        for _ in range(10):
            total += 1

    in_parallel(count, count)
    assert connect().Counter("/kazoo/counter").value == 20


def party():
    first, second = connect(), connect()
    first.Party("/kazoo/party", "first").join()
    there = second.Party("/kazoo/party", "second")
    there.join()
    assert sorted(there) == ["first", "second"]
    first.stop()
    assert sorted(there) == ["second"]


def party_beside_others():
    """Joins the party at the path of the third argument, and prints who is in it for each line of the input."""
    party = connect().Party(sys.argv[3], "python")
    party.join()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(*sorted(party), flush=True)
    party.leave()


def lost_session():
    """A second connection ends the session: the first learns that it is lost, and starts another."""
    zk, witness = connect(), connect()
    states, lost, again = [], threading.Event(), threading.Event()

    def listen(state):
        states.append(state)
        if state == KazooState.LOST:
            lost.set()
        elif state == KazooState.CONNECTED and lost.is_set():
            again.set()

    zk.add_listener(listen)
    zk.create("/kazoo/mine", ephemeral=True, makepath=True)
    old = zk.client_id
    for _ in range(PATIENCE):
        # The first client may reattach its session before the second can close it: try again.
        thief = KazooClient(hosts=HOSTS, client_id=old)
        thief.start(timeout=PATIENCE)
        thief.stop()
        if lost.wait(1):
            break
    assert lost.is_set(), states
    assert again.wait(PATIENCE), states
    assert witness.exists("/kazoo/mine") is None
    assert zk.client_id[0] != old[0]


def restart():
    """The caller restarts the server between the two lines of output, and then writes a line."""
    zk = connect()
    lost = threading.Event()
    zk.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
    zk.add_auth("digest", "ben:secret")
    zk.ensure_path("/kazoo")
    stat = zk.create("/kazoo/kept", b"kept", acl=CREATOR_ALL_ACL, include_data=True)[1]
    zk.create("/kazoo/mine", ephemeral=True)
    lock = zk.Lock("/kazoo/lock", "me")
    lock.acquire()
    session = zk.client_id[0]
    print("ready", flush=True)
    sys.stdin.readline()
    other = connect()
    assert zk.retry(zk.get, "/kazoo/kept") == (b"kept", stat)
    assert zk.client_id[0] == session and not lost.is_set()
    assert other.exists("/kazoo/mine").ephemeralOwner == session
    assert not other.Lock("/kazoo/lock", "other").acquire(blocking=False)
    with fails(exceptions.NoAuthError):
        other.get("/kazoo/kept")
    assert other.create("/kazoo/later", include_data=True)[1].czxid > stat.czxid
    lock.release()


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)
    globals()[sys.argv[2]]()
    for client in clients:
        client.stop()
    print("done")

/*
 * A model of an exclusive lock, for Spin. docs/internals/model.md describes what it covers. "Rule N" is the rule with that
 * number in CONTRIBUTING.md; "step N" is the step in docs/internals/how-a-grant-stays-safe.md.
 *
 * A place is the request of a process for one znode. In the default order the callers of a process share one place; in
 * strict order (STRICT) each caller has its own. The queue holds the znodes of all processes in the order of their sequence
 * numbers, so a znode is known by its index in the queue.
 *
 * The values of zxids have no meaning beside their order. They are renumbered after each transaction, so that states that
 * differ only in the number of past transactions are one state.
 */
#ifndef NP
#define NP 2 /* processes */
#endif
#ifndef NC
#define NC 2 /* callers of each process, 1 or 2 */
#endif
#ifndef NF
#define NF 1 /* faults, cancelled waits, revocations and deletions by other clients, together */
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* acquisitions of each caller; 0: without end */
#endif
#define BUDGET 1 /* hand-overs within a process while others wait */

/* The time of a session, in quarters of its timeout. */
#define TIMEOUT 4
#ifdef DECLARES_LOST_AT_FULL_TIMEOUT
#define DEADLINE 4
#else
#define DEADLINE 3
#endif

#define CALLERS (NP * NC)
#ifdef STRICT
#define PLACES CALLERS
#define PLACE(c) (c)
#define PROCESS(i) ((i) / NC)
#else
#define PLACES NP
#define PLACE(c) ((c) / NC)
#define PROCESS(i) (i)
#endif

/* The states of a place. */
#define IDLE 0     /* no znode */
#define UNKNOWN 1  /* the reply to the create was lost */
#define LIST 2     /* lists the queue next */
#define FIRST 3    /* a listing that grants the lock is on its way to the client */
#define WRITTEN 4  /* so is the reply to the write that follows it on Keeper */
#define WATCH 5    /* watches the znode just ahead */
#define HELD 6
#define DEFERRED 7 /* must know whether other processes wait before it hands the lock over */
#define LINGER 8
#define STUCK 9    /* waits for a notification that never comes; with planted bugs only */
#define SEARCH 10  /* will set its watch next; with a planted bug only */

/* The states of a caller. */
#define REST 0
#define WAIT 1
#define HOLD 2
#define LATE 3 /* has lost its lease, and its work continues */
#define DONE 4

/* A znode in the queue: the process that owns it, and flags. */
#define OWNER(e) ((e) & 7)
#define OLD 8     /* of a session that the client has given up and the leader has not yet expired */
#define DELETE 16 /* its deletion is pending */
#define HIDDEN 32 /* its wait has ended before the reply to its create: found and deleted in the background */
#define RELEASED 64 /* of a strict holder that has released, whose hold may be continued */
#define NONE 14   /* no index: no znode is ahead */
#define GONE 15   /* no index: the znode was deleted */
#define SIZE 8    /* of the queue */

byte queue[SIZE];
byte size;
byte faults = NF;

/* Of each process. */
bool up[NP];      /* connected */
bool ended[NP];   /* the client has declared its session lost */
bool expired[NP]; /* the leader has expired it */
byte idle[NP];    /* quarters on the leader's clock since it has heard from the session */
byte age[NP];     /* quarters on the client's clock since it sent the last request that the leader answered */
bool behind[NP];  /* connected to a server that lags; with a planted bug only */

/* Of each place. */
byte st[PLACES];
byte own[PLACES];     /* index of its znode */
byte ahead[PLACES];   /* index of the znode just ahead in the last listing */
byte head[PLACES];    /* the caller that has waited longest */
byte used[PLACES];    /* the spent part of the budget */
bool joined[PLACES];  /* whether the queue was listed before */
bool revoked[PLACES];
bool robbed[PLACES];  /* another client has deleted the znode, and this client does not know it yet */

byte caller[CALLERS];
#if ROUNDS > 1
byte round[CALLERS];
#endif

#ifdef RE_ENTERS_LOST_LEASE
bool inside[CALLERS]; /* whether its work continues after a loss */
#endif

#ifdef TOKENS
byte zxid;            /* of the last transaction */
byte pzxid;           /* of the parent */
byte from[PLACES];    /* the zxid of the tokens */
byte early[PLACES];   /* the pzxid in the first listing */
byte nth[PLACES];     /* the number of tokens of that zxid that are used */
byte heldFrom[NP], heldNth[NP]; /* of the last strict hold of the process */
byte topFrom, topNth; /* the highest token of all grants */
#endif

hidden byte x, y, v, k;
hidden byte unused;

/* Rule 4 and rule 5: whoever asks reads the clock. */
#if defined(TRUSTS_SESSION_WITHOUT_CLOCK) || defined(DECLARES_LOST_ONLY_ON_RECONNECT)
#define TRUSTED(p) (!ended[p])
#else
#define TRUSTED(p) (!ended[p] && age[p] < DEADLINE)
#endif
#if NC == 1 || defined(STRICT)
#define WAITS(i) (caller[i] == WAIT)
#define FIRSTWAITER(i) i
#define ALLDONE(p) (caller[(p) * NC] == DONE && caller[(p) * NC + NC - 1] == DONE)
#else
#define WAITS(i) (caller[(i) * 2] == WAIT || caller[(i) * 2 + 1] == WAIT)
#define FIRSTWAITER(i) head[i]
#define ALLDONE(p) (caller[(p) * 2] == DONE && caller[(p) * 2 + 1] == DONE)
#endif

/* ---- Tokens: rule 6, step 7 ---- */

#ifdef TOKENS
inline renumber() {
  v = zxid;
  do
  :: v > 1 ->
    v--;
    unused = (pzxid != v && topFrom != v);
    for (x : 0 .. PLACES - 1) { unused = unused && from[x] != v && early[x] != v }
    for (x : 0 .. NP - 1) { unused = unused && heldFrom[x] != v }
    if
    :: unused ->
      zxid--;
      pzxid = pzxid - (pzxid > v);
      topFrom = topFrom - (topFrom > v);
      for (x : 0 .. PLACES - 1) { from[x] = from[x] - (from[x] > v); early[x] = early[x] - (early[x] > v) }
      for (x : 0 .. NP - 1) { heldFrom[x] = heldFrom[x] - (heldFrom[x] > v) }
    :: else
    fi
  :: else -> break
  od;
  /* The number of the highest token matters only to those that continue its zxid. */
  unused = true;
  for (x : 0 .. PLACES - 1) { unused = unused && from[x] != topFrom }
  for (x : 0 .. NP - 1) { unused = unused && heldFrom[x] != topFrom }
  if :: unused -> topNth = 0 :: else fi
}
/* Keeper raises the pzxid of a parent for a create only. */
inline transaction(isCreate) {
  zxid++;
#ifdef KEEPER
  if :: isCreate -> pzxid = zxid :: else fi;
#else
  pzxid = zxid;
#endif
  renumber()
}
inline forgetHold(p) { heldFrom[p] = 0; heldNth[p] = 0 }
inline forgetTokens(i) { from[i] = 0; early[i] = 0; nth[i] = 0 }
inline nextToken(i) {
  if
  :: robbed[i] /* passed on before the client knows of the deletion; a store refuses the token */
  :: else ->
    assert(from[i] > topFrom || (from[i] == topFrom && nth[i] > topNth)); /* tokens rise */
    topFrom = from[i];
    topNth = nth[i];
    renumber()
  fi
}
#else
#define transaction(isCreate) k = k
#define forgetTokens(i) k = k
#define forgetHold(p) k = k
#define nextToken(i) k = k
#endif

/* ---- The queue ---- */

inline append(p) {
  queue[size] = p;
  size++;
  transaction(true)
}

inline shift(index, at) {
  if
  :: index == at -> index = GONE
  :: index < NONE && index > at -> index--
  :: else
  fi
}
inline remove(at) {
  if :: queue[at] & RELEASED -> forgetHold(OWNER(queue[at])) :: else fi;
  for (x : at .. size - 2) { queue[x] = queue[x + 1] }
  size--;
  queue[size] = 0;
  for (x : 0 .. PLACES - 1) { shift(own[x], at); shift(ahead[x], at) }
  transaction(false)
}
#define HAS(j, p, mask, flags) ((j) < size && OWNER(queue[j]) == (p) && (queue[j] & (mask)) == (flags))
#define ANY(p, mask, flags) \
  (HAS(0, p, mask, flags) || HAS(1, p, mask, flags) || HAS(2, p, mask, flags) || HAS(3, p, mask, flags) || \
   HAS(4, p, mask, flags) || HAS(5, p, mask, flags) || HAS(6, p, mask, flags) || HAS(7, p, mask, flags))
/* Deletes the first znode of process p whose flags under a mask have a value, if there is one. */
inline deleteFirst(p, mask, flags) {
  k = 0;
  do
  :: k < size && !(OWNER(queue[k]) == p && (queue[k] & (mask)) == (flags)) -> k++
  :: else -> break
  od;
  if :: k < size -> remove(k) :: else fi
}
inline deleteAll(p, mask, flags) {
  do :: ANY(p, mask, flags) -> deleteFirst(p, mask, flags) :: else -> break od;
  k = 0
}
/* ---- Grants ---- */

/* The holders that believe in their lease. Nothing protects a holder from a client that deletes its znode, until it knows. */
inline checkBelievers() {
  y = 0;
  for (x : 0 .. CALLERS - 1) {
    y = y + (caller[x] == HOLD && TRUSTED(PROCESS(PLACE(x))) && !robbed[PLACE(x)])
  }
  assert(y <= 1)
}

#if NC == 2 && !defined(STRICT)
inline nextHead(i, c) { if :: caller[c] == WAIT -> head[i] = c :: else -> head[i] = 0 fi }
#else
#define nextHead(i, c)
#endif

/* Grants the lock to the caller that has waited longest. */
inline grant(i) {
  assert(!expired[PROCESS(i)]); /* no lease is lost before it begins */
  assert(!revoked[i]);          /* a lock that was revoked is passed on to nobody */
  k = FIRSTWAITER(i);
#ifdef RE_ENTERS_LOST_LEASE
  assert(!inside[k]);           /* rule 9 */
#endif
  printf("  granted to caller %d\n", k);
  caller[k] = HOLD;
  nextHead(i, k ^ 1);
  st[i] = HELD;
  ahead[i] = NONE;
  nextToken(i);
  checkBelievers()
}

/* The place has no znode any more. */
inline reset(i) {
  st[i] = IDLE;
  own[i] = GONE;
  ahead[i] = NONE;
  used[i] = 0;
  joined[i] = false;
  revoked[i] = false;
  robbed[i] = false;
  forgetTokens(i)
}

/* Rule 3, step 5: the place is left, and its znode is deleted, now or after a reconnection. */
inline leave(i) {
  if :: own[i] < NONE -> queue[own[i]] = queue[own[i]] | DELETE :: else fi;
  reset(i)
}

/* Rule 7, step 6: the last lease has ended. Grants the lock to the next caller of the process, keeps the znode, or deletes it. */
inline advance(i, keep) {
#ifdef STRICT
  if
  :: own[i] < NONE && !revoked[i] ->
    queue[own[i]] = queue[own[i]] | RELEASED;
#ifdef TOKENS
    heldFrom[PROCESS(i)] = from[i];
    heldNth[PROCESS(i)] = nth[i];
#endif
  :: else
  fi;
  leave(i)
#else
  if
#ifndef HANDS_OVER_AFTER_REVOCATION
  :: revoked[i] -> leave(i)
#endif
#ifndef HANDS_OVER_AFTER_PAUSE
  :: !TRUSTED(i) -> leave(i)
#endif
  :: else ->
    if
    :: WAITS(i) && used[i] >= BUDGET -> st[i] = DEFERRED
    :: WAITS(i) && used[i] < BUDGET ->
#ifndef HANDS_OVER_WITHOUT_LIMIT
      used[i]++;
#endif
#if defined(TOKENS) && !defined(REPEATS_TOKEN_ON_HANDOVER)
      nth[i]++;
#endif
      grant(i)
    :: !WAITS(i) && keep -> st[i] = LINGER
    :: !WAITS(i) && !keep -> leave(i)
    fi
  fi
#endif
}

/* ---- The steps of a place ---- */

inline loseCallers(i) {
#if NC == 1 || defined(STRICT)
  if :: caller[i] == HOLD -> caller[i] = LATE :: else fi
#else
  if :: caller[i * 2] == HOLD -> caller[i * 2] = LATE :: else fi;
  if :: caller[i * 2 + 1] == HOLD -> caller[i * 2 + 1] = LATE :: else fi
#endif
}

/* Rule 3: the pending deletions of the session were sent before the create. */
inline create(i) {
  deleteAll(PROCESS(i), DELETE | OLD, DELETE);
  append(PROCESS(i));
  own[i] = size - 1
}

/* Rule 2, step 2: a listing. */
inline list(i) {
#ifdef TOKENS
  from[i] = pzxid;
#if defined(KEEPER) || defined(TAKES_TOKEN_FROM_OWN_CREATE)
  if :: early[i] == 0 -> early[i] = pzxid :: else fi;
#endif
#endif
  if
  :: own[i] == GONE ->
#ifdef GRANTS_WITHOUT_OWN_NODE
    robbed[i] = false;
    if :: size == 0 -> st[i] = FIRST :: else -> ahead[i] = 0; st[i] = WATCH fi
#else
    reset(i)
#endif
  :: own[i] == 0 -> st[i] = FIRST
  :: own[i] != GONE && own[i] > 0 ->
#ifdef TAKES_ANY_LOCK_AS_FREE
    if :: joined[i] -> ahead[i] = own[i] - 1; st[i] = WATCH :: else -> st[i] = FIRST fi
#elif defined(WATCHES_WITHOUT_READING)
    ahead[i] = own[i] - 1; st[i] = SEARCH
#elif defined(FORGETS_FIRST_CREATE)
    if :: joined[i] -> ahead[i] = own[i] - 1; st[i] = WATCH :: else -> reset(i) fi
#else
    ahead[i] = own[i] - 1; st[i] = WATCH
#endif
  fi;
#ifdef TAKES_TOKEN_FROM_OWN_CREATE
  from[i] = early[i];
#endif
#ifdef TOKENS
  if :: st[i] == FIRST :: else -> from[i] = 0 fi;
#endif
#if defined(TAKES_ANY_LOCK_AS_FREE) || defined(FORGETS_FIRST_CREATE) || defined(ORDERS_QUEUE_BY_NAME)
  if :: st[i] == IDLE :: else -> joined[i] = true fi
#endif
}

#ifdef ORDERS_QUEUE_BY_NAME
inline goFirst(i) {
  ahead[i] = NONE;
  st[i] = FIRST;
#ifdef TOKENS
  from[i] = pzxid
#endif
}
#endif

/* The reply that grants the lock has arrived. Rule 5: a pause may have outlived the session. */
inline receive(i) {
  if
  :: !TRUSTED(PROCESS(i)) -> st[i] = LIST
  :: TRUSTED(PROCESS(i)) && WAITS(i) -> grant(i)
  :: TRUSTED(PROCESS(i)) && !WAITS(i) ->
#ifdef KEEPS_NODE_WITHOUT_WAITERS
    reset(i)
#else
    leave(i)
#endif
  fi
}

#ifdef KEEPER
#ifdef TOKEN_FROM_PZXID_WITHOUT_A_RISE
#define NEEDSWRITE(i) false
#elif defined(TOKEN_FROM_RISEN_PZXID)
#define NEEDSWRITE(i) (from[i] <= early[i])
#elif defined(TOKEN_OF_FREE_LOCK_FROM_PZXID)
#define NEEDSWRITE(i) (from[i] != early[i])
#else
#define NEEDSWRITE(i) true
#endif
#else
#define NEEDSWRITE(i) false
#endif

/* Strict order, step 6: the hold that a caller of this session has released just ahead. */
#ifdef STRICT_CALLER_SUCCEEDS_ANY_HOLDER
#define FOLLOWS(i) (ANY(PROCESS(i), RELEASED | OLD, RELEASED))
#else
#define FOLLOWS(i) (HAS(ahead[i], PROCESS(i), RELEASED | OLD, RELEASED) && !SHARED(i))
#endif
/* Two callers are directly behind one hold: another client has deleted the znode of the first. */
#define BEHIND(i, j) ((j) < PLACES && (j) != (i) && st[j] == WATCH && ahead[j] == ahead[i])
#define SHARED(i) (BEHIND(i, 0) || BEHIND(i, 1) || BEHIND(i, 2) || BEHIND(i, 3))

inline follow(i) {
#ifdef TOKENS
  from[i] = heldFrom[PROCESS(i)];
#ifdef STRICT_CALLER_REPEATS_TOKEN
  nth[i] = heldNth[PROCESS(i)];
#else
  nth[i] = heldNth[PROCESS(i)] + 1;
#endif
#endif
#ifndef STRICT_CALLER_SUCCEEDS_ANY_HOLDER
  queue[ahead[i]] = queue[ahead[i]] & ~RELEASED;
  forgetHold(PROCESS(i))
#endif
}

proctype Place(byte i) {
end:
  do
  /* Rule 1, step 1: the create. Its reply may be lost, or the request. */
  :: d_step { st[i] == IDLE && WAITS(i) && up[PROCESS(i)] && size < SIZE -> printf("place %d: create\n", i);
      create(i); st[i] = LIST }
  :: d_step { st[i] == IDLE && WAITS(i) && up[PROCESS(i)] && size < SIZE && faults > 0 ->
      printf("place %d: create, reply lost\n", i);
      faults--; create(i); st[i] = UNKNOWN; up[PROCESS(i)] = false }
  :: d_step { st[i] == IDLE && WAITS(i) && up[PROCESS(i)] && faults > 0 -> printf("place %d: create, request lost\n", i);
      faults--; st[i] = UNKNOWN; up[PROCESS(i)] = false }
  /* After a lost reply the znode is searched for, and is created again only if it does not exist. */
  :: d_step { st[i] == UNKNOWN && up[PROCESS(i)] -> printf("place %d: search\n", i);
#ifdef CREATES_AGAIN_WITHOUT_SEARCH
      reset(i)
#else
      if :: own[i] == GONE || behind[PROCESS(i)] -> reset(i) :: else -> st[i] = LIST fi
#endif
    }
  :: d_step { st[i] == LIST && up[PROCESS(i)] -> printf("place %d: list\n", i); list(i) }
#ifdef ORDERS_QUEUE_BY_NAME
  /* The random part of its name puts the znode first. */
  :: d_step { st[i] == LIST && up[PROCESS(i)] && !joined[i] && own[i] != GONE ->
      printf("place %d: list by name\n", i); list(i); goFirst(i) }
#endif
#ifdef WATCHES_WITHOUT_READING
  :: d_step { st[i] == SEARCH && up[PROCESS(i)] ->
      printf("place %d: watch\n", i); if :: ahead[i] == GONE -> st[i] = STUCK :: else -> st[i] = WATCH fi }
#endif
  :: d_step { st[i] == FIRST && !NEEDSWRITE(i) -> printf("place %d: listing arrives\n", i); receive(i) }
#ifdef KEEPER
  :: d_step { st[i] == FIRST && NEEDSWRITE(i) && up[i] -> printf("place %d: write\n", i);
      if
      :: own[i] == GONE -> reset(i)
      :: else -> zxid++; from[i] = zxid; st[i] = WRITTEN; renumber()
      fi }
  :: d_step { st[i] == WRITTEN -> printf("place %d: write arrives\n", i); receive(i) }
#endif
  :: d_step { st[i] == WATCH && ahead[i] == GONE && up[PROCESS(i)] ->
      printf("place %d: notified\n", i); st[i] = LIST; ahead[i] = NONE }
#ifdef STRICT
  :: d_step { st[i] == WATCH && FOLLOWS(i) && TRUSTED(PROCESS(i)) -> printf("place %d: succeed\n", i); follow(i); grant(i) }
  /* A strict caller watches its own znode while it waits. */
  :: d_step { st[i] == WATCH && robbed[i] && up[PROCESS(i)] -> printf("place %d: own znode gone\n", i);
      robbed[i] = false;
#ifndef STRICT_CALLER_WITHOUT_OWN_ZNODE
      reset(i)
#endif
    }
#else
  /* The budget is spent: the queue is listed, and the lock is passed on if another process waits. */
  :: d_step { st[i] == DEFERRED && up[i] -> printf("place %d: list contenders\n", i);
      if
      :: size > 1 || own[i] == GONE -> leave(i)
      :: else -> used[i] = 0; st[i] = HELD; advance(i, false)
      fi }
  :: d_step { st[i] == DEFERRED && !TRUSTED(i) -> printf("place %d: close\n", i); leave(i) }
  :: d_step { st[i] == LINGER && WAITS(i) -> printf("place %d: grant while lingering\n", i); advance(i, false) }
#ifndef LINGERS_DESPITE_ARRIVALS
  :: d_step { st[i] == LINGER && up[i] && size > 1 -> printf("place %d: yield\n", i); leave(i) }
#endif
  :: d_step { st[i] == LINGER && !WAITS(i) && size <= 1 -> printf("place %d: linger ends\n", i); leave(i) }
#endif
  /* A holder watches its own znode: it notices a deletion, and a request for revocation. */
  :: d_step { (st[i] == HELD || st[i] == DEFERRED || st[i] == LINGER) && robbed[i] && up[PROCESS(i)] ->
      printf("place %d: lost, znode deleted\n", i);
      robbed[i] = false;
#ifndef IGNORES_DELETION_OF_OWN_NODE
      loseCallers(i);
      reset(i)
#endif
    }
  :: d_step { st[i] == HELD && up[PROCESS(i)] && own[i] < NONE && !revoked[i] && faults > 0 ->
      printf("place %d: revoked\n", i); faults--; revoked[i] = true }
  od
}

/* ---- Callers ---- */

inline finish(c) {
#if ROUNDS == 0
  caller[c] = REST
#elif ROUNDS == 1
  caller[c] = DONE
#else
  round[c]++;
  if :: round[c] == ROUNDS -> caller[c] = DONE :: else -> caller[c] = REST fi
#endif
}

/* Rule 3: the last caller of a place has given up. A grant that is on its way finds no caller. */
inline abandon(i) {
  if
  :: st[i] == UNKNOWN ->
#ifndef FORGETS_NODE_OF_LOST_CREATE
    if :: own[i] < NONE -> queue[own[i]] = queue[own[i]] | HIDDEN :: else fi;
#endif
    reset(i)
  :: st[i] == LIST || st[i] == WATCH || st[i] == SEARCH || st[i] == STUCK ->
#ifdef FORGETS_NODE_OF_CANCELLED_WAIT
    reset(i)
#else
    leave(i)
#endif
  :: st[i] == DEFERRED -> leave(i)
  :: else
  fi
}

/*
 * The processes are alike, and so are the callers of a process. Only runs are searched in which the first requests come in the
 * order of the numbers: every other run is one of these with other numbers.
 */
#if ROUNDS == 1
#define MAYBEGIN(c) (c == 0 || (c % NC == 0 && caller[c - NC] != REST) || (c % NC != 0 && caller[c - 1] != REST))
#else
#define MAYBEGIN(c) true
#endif

proctype Caller(byte c) {
end:
  do
  :: d_step { caller[c] == REST && MAYBEGIN(c) -> printf("caller %d: request\n", c);
#if NC == 2 && !defined(STRICT)
      if :: caller[c ^ 1] != WAIT -> head[PLACE(c)] = c :: else fi;
#endif
      caller[c] = WAIT }
  :: d_step { caller[c] == WAIT && faults > 0 -> printf("caller %d: cancel\n", c);
      faults--; finish(c); nextHead(PLACE(c), c ^ 1);
      if :: WAITS(PLACE(c)) :: else -> abandon(PLACE(c)) fi }
  :: d_step { caller[c] == HOLD -> printf("caller %d: release\n", c); finish(c); advance(PLACE(c), false) }
#ifdef LINGERS
  :: d_step { caller[c] == HOLD -> printf("caller %d: release, linger\n", c); finish(c); advance(PLACE(c), true) }
#endif
  /* Its holdAtMost is over. */
  :: d_step { caller[c] == HOLD && faults > 0 ->
      printf("caller %d: holdAtMost is over\n", c); faults--; caller[c] = LATE; advance(PLACE(c), false) }
  /* Rule 9: a caller that has lost its lease only ends its work; its release does nothing. */
  :: d_step { caller[c] == LATE -> printf("caller %d: late release\n", c);
#ifdef RE_ENTERS_LOST_LEASE
      inside[c] = false;
#endif
#ifdef LATE_RELEASE_FREES_NEXT_HOLDER
      if :: own[PLACE(c)] < NONE -> queue[own[PLACE(c)]] = queue[own[PLACE(c)]] | DELETE :: else fi;
#endif
      finish(c) }
#ifdef RE_ENTERS_LOST_LEASE
  :: d_step { caller[c] == LATE ->
      printf("caller %d: enters again\n", c); inside[c] = true; caller[c] = WAIT; head[PLACE(c)] = c }
#endif
  od
}

/* ---- Sessions ---- */

/* Step 8: the leases of a session end with it, and its waiters join the queue again. */
inline endSession(p) {
  for (y : 0 .. PLACES - 1) {
    if
    :: PROCESS(y) == p ->
#ifdef WAIT_ENDS_WITH_SESSION
      assert(!WAITS(y) || st[y] == IDLE); /* a wait ends with a grant, or when its caller gives up */
#endif
      loseCallers(y);
#ifdef RETRIES_CREATE_ACROSS_SESSIONS
      behind[p] = behind[p] || st[y] == UNKNOWN;
#endif
      reset(y)
    :: else
    fi
  }
  forgetHold(p);
  for (x : 0 .. SIZE - 1) {
    if :: x < size && OWNER(queue[x]) == p -> queue[x] = p | OLD :: else fi
  }
}

#ifdef STRICT
#define FIRSTPLACE(p) ((p) * NC)
#define ALLIDLE(p) (st[(p) * NC] == IDLE && st[(p) * NC + NC - 1] == IDLE)
#else
#define FIRSTPLACE(p) (p)
#define ALLIDLE(p) (st[p] == IDLE)
#endif

#define ISROBBED(i) (faults > 0 && own[i] < NONE && st[i] != UNKNOWN)
inline rob(i) { faults--; k = own[i]; robbed[i] = true; remove(k) }

inline heard(p) { idle[p] = 0; age[p] = 0 }

/*
 * The session of a process. A lost connection, a pause of the process and a follower that has lost its leader are one fault
 * here: the leader hears nothing from the session, and the client acts whenever it likes.
 */
proctype Session(byte p) {
end:
  do
  /* A session without a znode has nothing to lose. */
  :: d_step { up[p] && faults > 0 && (ANY(p, OLD, 0) || !ALLIDLE(p)) ->
      printf("process %d: disconnected or paused\n", p); faults--; up[p] = false }
  /* The clocks. Nothing depends on the time before the deadline, so it passes in one step. */
  :: d_step { !up[p] && idle[p] == 0 -> printf("process %d: three quarters of the timeout pass\n", p); idle[p] = 3; age[p] = 3 }
  :: d_step { !up[p] && idle[p] == 3 -> printf("process %d: the timeout passes\n", p); idle[p] = 4; age[p] = 4 }
  /* The clock of the client is a quarter slower. */
  :: d_step { !up[p] && idle[p] == 0 -> printf("process %d: the timeout passes, slow clock\n", p); idle[p] = 4; age[p] = 3 }
#if defined(COUNTS_DEADLINE_FROM_REPLY) || defined(READS_EXTEND_DEADLINE)
  /* After half of the time the client has read a reply that waited in its socket, or that of a follower without a leader. */
  :: d_step { !up[p] && idle[p] == 0 -> printf("process %d: the timeout passes, late reply\n", p); idle[p] = 4; age[p] = 2 }
#endif
  :: d_step { !up[p] && idle[p] == TIMEOUT && !expired[p] -> printf("process %d: expired\n", p);
      expired[p] = true;
      deleteAll(p, OLD, 0);
      for (x : 0 .. PLACES - 1) { if :: PROCESS(x) == p -> robbed[x] = false :: else fi };
      k = 0 }
  /* Rule 4, step 3: the client declares its session lost. */
#ifndef DECLARES_LOST_ONLY_ON_RECONNECT
  :: d_step { !up[p] && !ended[p] && age[p] >= DEADLINE ->
      printf("process %d: declares the session lost\n", p); endSession(p); ended[p] = true }
#endif
  /* The reconnection, in the same session or in a new one. */
  :: d_step { !up[p] && !expired[p] && TRUSTED(p) -> printf("process %d: reconnected\n", p);
      up[p] = true;
#ifdef FORGETS_WATCHES_ON_RECONNECT
      for (x : 0 .. PLACES - 1) { if :: PROCESS(x) == p && st[x] == WATCH -> st[x] = STUCK :: else fi }
#endif
      heard(p) }
#ifdef NO_SYNC_AFTER_RECONNECT
  :: d_step { !up[p] && !expired[p] && TRUSTED(p) ->
      printf("process %d: reconnected to a server that lags\n", p); up[p] = true; behind[p] = true; heard(p) }
  :: d_step { behind[p] -> printf("process %d: its server has caught up\n", p); behind[p] = false }
#endif
  :: d_step { !up[p] && (expired[p] || ended[p]) -> printf("process %d: new session\n", p);
      if :: ended[p] :: else -> endSession(p) fi;
      up[p] = true; ended[p] = false; expired[p] = false; heard(p);
#ifdef RETRIES_CREATE_ACROSS_SESSIONS
      if :: behind[p] && size < SIZE -> behind[p] = false; append(p) :: else fi
#endif
    }
  /* The leader expires a session that the client has given up. */
  :: d_step { ANY(p, OLD, OLD) -> printf("process %d: old session expired\n", p); deleteAll(p, OLD, OLD) }
  /* Rule 3: deletions are sent again until a server has answered. */
  :: d_step { up[p] && ANY(p, DELETE | OLD, DELETE) -> printf("process %d: delete\n", p); deleteFirst(p, DELETE | OLD, DELETE) }
#ifdef DOES_NOT_RETRY_RELEASE
  :: d_step { up[p] && ANY(p, DELETE | OLD, DELETE) && faults > 0 -> printf("process %d: delete, request lost\n", p);
      faults--; up[p] = false;
      for (x : 0 .. SIZE - 1) { if :: x < size && OWNER(queue[x]) == p -> queue[x] = queue[x] & ~(DELETE | RELEASED) :: else fi };
      k = 0 }
#endif
  :: d_step { up[p] && ANY(p, HIDDEN | OLD, HIDDEN) ->
      printf("process %d: found and deleted\n", p); deleteFirst(p, HIDDEN | OLD, HIDDEN) }
#ifdef DELETIONS
  /* Another client deletes the znode of a place. */
  :: d_step { ISROBBED(FIRSTPLACE(p)) -> printf("process %d: znode deleted by another client\n", p); rob(FIRSTPLACE(p)) }
#ifdef STRICT
  :: d_step { ISROBBED(FIRSTPLACE(p) + NC - 1) ->
      printf("process %d: second znode deleted by another client\n", p); rob(FIRSTPLACE(p) + NC - 1) }
#endif
#endif
  od
}
#define QUIET(p) \
  (ALLDONE(p) && ALLIDLE(p) && up[p] && !ANY(p, OLD, OLD) && !ANY(p, DELETE | OLD, DELETE) && !ANY(p, HIDDEN | OLD, HIDDEN))

init {
  d_step {
    for (x : 0 .. NP - 1) { up[x] = true }
    for (x : 0 .. PLACES - 1) { own[x] = GONE; ahead[x] = NONE }
  }
  atomic {
    byte n;
    for (n : 0 .. NP - 1) { run Session(n) }
    for (n : 0 .. PLACES - 1) { run Place(n) }
    for (n : 0 .. CALLERS - 1) { run Caller(n) }
    n = 0
  }
#if ROUNDS > 0
  /* A run ends here, or it is an error: then a caller waits for ever. */
  QUIET(0) && QUIET(1) && QUIET(NP - 1);
  assert(size == 0) /* no znode is left */
#endif
}

#if ROUNDS == 0
/* No caller waits for ever. The last caller stands for all, because the processes are alike. */
ltl served { [] <> (caller[CALLERS - 1] != WAIT) }
#endif

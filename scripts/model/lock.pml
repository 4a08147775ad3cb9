/*
 * A model of an exclusive lock, for Spin. docs/internals/model.md describes what it covers. "Rule N" is the rule with that
 * number in CONTRIBUTING.md; "step N" is the step in docs/internals/how-a-grant-stays-safe.md.
 *
 * A place is a request of a process for one znode. In the default order the callers of a process share one place; in strict
 * order each caller has its own. The queue has the znodes of all processes in the order of their sequence numbers, and a
 * znode is named by its index in the queue.
 *
 * Each step changes the state at once (d_step). A request and its reply are one step where nothing can depend on the time
 * between them. The reply that grants the lock is a step of its own.
 */

/*
 * The constants of a configuration:
 *   NP         processes, 2 or 3
 *   NC         callers of each process, 1 or 2
 *   NF         faults; a cancelled wait, the end of holdAtMost, a revocation and a deletion count as faults
 *   ROUNDS     acquisitions of each caller, 1 or 2; 0: without end
 *   STRICT     1: strict order in groups
 *   KEEPER     1: the servers are ClickHouse Keeper
 *   DELETIONS  1: another client may delete a znode
 *   BUG        the planted bug, or 0
 */
#define TOKENS (ROUNDS > 0) /* without end, the tokens of a znode would make the number of states infinite */
#define BUDGET 1 /* hand-overs within a process while others wait */
#define TIMEOUT 4 /* the session timeout, in quarters */
#define DEADLINE (3 + (BUG == DECLARES_LOST_AT_FULL_TIMEOUT)) /* rule 4: when the client declares its session lost */

/* The planted bugs of npm run simulate that concern the model, by the rule that each of them breaks. */
mtype = {
  /* rule 1 */ CREATES_AGAIN_WITHOUT_SEARCH, RETRIES_CREATE_ACROSS_SESSIONS, NO_SYNC_AFTER_RECONNECT, FORGETS_FIRST_CREATE,
  /* rule 2 */ GRANTS_WITHOUT_OWN_NODE, ORDERS_QUEUE_BY_NAME, TAKES_ANY_LOCK_AS_FREE, WATCHES_WITHOUT_READING,
    FORGETS_WATCHES_ON_RECONNECT,
  /* rule 3 */ FORGETS_NODE_OF_LOST_CREATE, FORGETS_NODE_OF_CANCELLED_WAIT, KEEPS_NODE_WITHOUT_WAITERS, DOES_NOT_RETRY_RELEASE,
    LATE_RELEASE_FREES_NEXT_HOLDER, WAIT_ENDS_WITH_SESSION,
  /* rule 4 */ DECLARES_LOST_AT_FULL_TIMEOUT, DECLARES_LOST_ONLY_ON_RECONNECT, COUNTS_DEADLINE_FROM_REPLY,
    READS_EXTEND_DEADLINE,
  /* rule 5 */ TRUSTS_SESSION_WITHOUT_CLOCK,
  /* rule 6 */ TAKES_TOKEN_FROM_OWN_CREATE, REPEATS_TOKEN_ON_HANDOVER, STRICT_CALLER_REPEATS_TOKEN,
    TOKEN_FROM_PZXID_WITHOUT_A_RISE, TOKEN_FROM_RISEN_PZXID, TOKEN_OF_FREE_LOCK_FROM_PZXID,
  /* rule 7 */ HANDS_OVER_AFTER_PAUSE, HANDS_OVER_AFTER_REVOCATION, HANDS_OVER_WITHOUT_LIMIT, LINGERS_DESPITE_ARRIVALS,
    IGNORES_DELETION_OF_OWN_NODE, STRICT_CALLER_SUCCEEDS_ANY_HOLDER, STRICT_CALLER_WITHOUT_OWN_ZNODE,
  /* rule 9 */ RE_ENTERS_LOST_LEASE
}

#define CALLERS (NP * NC)
#define SHARE (NC - STRICT * (NC - 1)) /* callers of a place */
#define PLACES (CALLERS / SHARE)
#define PLACE(c) ((c) / SHARE)
#define PROCESS(i) ((i) * SHARE / NC)
#define FIRSTPLACE(p) ((p) * NC / SHARE)
#define LASTPLACE(p) (((p) * NC + NC - 1) / SHARE)
#define FIRSTCALLER(i) ((i) * SHARE)
#define LASTCALLER(i) ((i) * SHARE + SHARE - 1)
#define NEIGHBOUR(c) ((c) ^ (SHARE - 1)) /* the other caller of its place */

/* The states of a place. */
#define IDLE 0     /* no znode */
#define UNKNOWN 1  /* the reply to the create was lost */
#define LIST 2     /* the queue is to be listed */
#define FIRST 3    /* a listing without a znode ahead is on its way to the client */
#define WRITTEN 4  /* so is the reply to the write that follows it on Keeper */
#define WATCH 5    /* watches the znode just ahead */
#define HELD 6
#define DEFERRED 7 /* hands the lock over if no other process waits */
#define LINGER 8
#define SEARCHING 9 /* with a planted bug: is to set its watch */
#define STUCK 10    /* with a planted bug: waits for a notification that never comes */

/* The states of a caller. */
#define REST 0
#define WAIT 1
#define HOLD 2
#define LATE 3 /* has lost its lease, and its work continues */
#define DONE 4

/* A znode in the queue: the number of the process that owns it, and flags. */
#define OWNER(e) ((e) & 7)
#define OLD 8       /* of a session that the client has given up and the leader has not expired yet */
#define DELETE 16   /* its deletion is pending */
#define HIDDEN 32   /* its wait ended before the reply to its create: it is searched for and deleted in the background */
#define RELEASED 64 /* of a strict holder that has released, and the next caller of its session may continue the hold */
#define NONE 14     /* no index: no znode is ahead */
#define GONE 15     /* no index: the znode was deleted */
#define SIZE 8      /* the capacity of the queue */

byte queue[SIZE], size, faults = NF;

/* Of each process. */
bool up[NP];      /* connected */
bool ended[NP];   /* the client has declared its session lost */
bool expired[NP]; /* the leader has expired it */
byte idle[NP];    /* quarters, by the leader's clock, since the leader has heard from the session */
byte age[NP];     /* quarters, by the client's clock, since it sent the last request that the leader answered */
bool behind[NP];  /* with a planted bug: connected to a server that lags, or about to repeat a create */

/* Of each place. */
byte st[PLACES];
byte own[PLACES];   /* its znode */
byte ahead[PLACES]; /* the znode just ahead in the last listing */
byte head[PLACES];  /* the caller that has waited longest */
byte used[PLACES];  /* the spent part of the budget */
bool joined[PLACES]; /* with a planted bug: the queue was listed before */
bool revoked[PLACES];
bool robbed[PLACES]; /* another client has deleted the znode, and this client does not know it yet */

byte caller[CALLERS], round[CALLERS];
bool inside[CALLERS]; /* with a planted bug: its work continues after a loss */

byte zxid, pzxid;     /* of the last transaction, and of the parent */
byte from[PLACES];    /* the zxid of the tokens */
byte early[PLACES];   /* the pzxid in the first listing, where something depends on it */
byte nth[PLACES];     /* the number of tokens of that zxid that are used */
byte heldFrom[NP], heldNth[NP]; /* of the released strict hold of the process */
byte topFrom, topNth; /* the highest token of all grants */

hidden byte x, y, v, k, unused; /* used within one step only */

/* Rule 5, step 4: each decision reads the clock. */
#define NOCLOCK (BUG == TRUSTS_SESSION_WITHOUT_CLOCK || BUG == DECLARES_LOST_ONLY_ON_RECONNECT)
#define TRUSTED(p) (!ended[p] && (age[p] < DEADLINE || NOCLOCK))
#define WAITS(i) (caller[FIRSTCALLER(i)] == WAIT || caller[LASTCALLER(i)] == WAIT)
/* Whether the znode with index j is one of process p that has these of the flags of a mask; whether there is such a znode. */
#define HAS(j, p, mask, flags) ((j) < size && OWNER(queue[j]) == (p) && (queue[j] & (mask)) == (flags))
#define ANY(p, mask, flags) \
  (HAS(0, p, mask, flags) || HAS(1, p, mask, flags) || HAS(2, p, mask, flags) || HAS(3, p, mask, flags) || \
   HAS(4, p, mask, flags) || HAS(5, p, mask, flags) || HAS(6, p, mask, flags) || HAS(7, p, mask, flags))
#define TODELETE(p) ANY(p, DELETE | OLD, DELETE)
#define TOFIND(p) ANY(p, HIDDEN | OLD, HIDDEN)
#define ALLIDLE(p) (st[FIRSTPLACE(p)] == IDLE && st[LASTPLACE(p)] == IDLE)
#define ALLDONE(p) (caller[(p) * NC] == DONE && caller[(p) * NC + NC - 1] == DONE)
#define QUIET(p) (ALLDONE(p) && ALLIDLE(p) && up[p] && !ANY(p, OLD, OLD) && !TODELETE(p) && !TOFIND(p))

/* ---- Rule 6, step 7: tokens ---- */

/*
 * Gives zxids smaller values in the same order, because only the order matters: states that differ in the number of past
 * transactions only are one state.
 */
inline renumber() {
  v = zxid;
  do
  :: v > 1 ->
    v--;
    unused = (pzxid != v && topFrom != v);
    for (x : 0 .. PLACES - 1) { unused = unused && from[x] != v && early[x] != v }
    for (x : 0 .. NP - 1) { unused = unused && heldFrom[x] != v }
    if
    :: unused -> zxid--; pzxid = pzxid - (pzxid > v); topFrom = topFrom - (topFrom > v);
      for (x : 0 .. PLACES - 1) { from[x] = from[x] - (from[x] > v); early[x] = early[x] - (early[x] > v) }
      for (x : 0 .. NP - 1) { heldFrom[x] = heldFrom[x] - (heldFrom[x] > v) }
    :: else
    fi
  :: else -> break
  od;
  unused = true;
  for (x : 0 .. PLACES - 1) { unused = unused && from[x] != topFrom }
  for (x : 0 .. NP - 1) { unused = unused && heldFrom[x] != topFrom }
  if :: unused -> topNth = 0 :: else fi
}

/* ClickHouse Keeper raises the pzxid of a parent for a create only. */
inline transaction(raises) {
  if :: TOKENS -> zxid++; if :: raises -> pzxid = zxid :: else fi; renumber() :: else fi
}

inline nextToken(i) {
  if
  :: !TOKENS || robbed[i] /* a client that does not know that its znode was deleted; the store refuses its token */
  :: else ->
    assert(from[i] > topFrom || (from[i] == topFrom && nth[i] > topNth)); /* tokens rise */
    topFrom = from[i]; topNth = nth[i]; renumber()
  fi
}

/* ---- The queue ---- */

inline shift(index, at) {
  if :: index == at -> index = GONE :: index < NONE && index > at -> index-- :: else fi
}

inline remove(at) {
  if :: queue[at] & RELEASED -> heldFrom[OWNER(queue[at])] = 0; heldNth[OWNER(queue[at])] = 0 :: else fi;
  for (x : at .. size - 2) { queue[x] = queue[x + 1] }
  size--; queue[size] = 0;
  for (x : 0 .. PLACES - 1) { shift(own[x], at); shift(ahead[x], at) }
  transaction(!KEEPER)
}

inline removeAll(p, mask, flags) {
  do
  :: ANY(p, mask, flags) ->
    k = 0;
    do :: !HAS(k, p, mask, flags) -> k++ :: else -> break od;
    remove(k)
  :: else -> break
  od;
  k = 0
}

/* Rule 3: the pending deletions of the session were sent before the create. */
inline create(i) {
  removeAll(PROCESS(i), DELETE | OLD, DELETE);
  own[i] = size; queue[size] = PROCESS(i); size++;
  transaction(true)
}

/* ---- Grants ---- */

inline nextHead(i, c) { if :: caller[c] == WAIT -> head[i] = c :: else -> head[i] = 0 fi }

/* Grants the lock to the caller that has waited longest. */
inline grant(i) {
  assert(!expired[PROCESS(i)]); /* the session of a grant is alive */
  assert(!revoked[i]);          /* a revoked lock is passed on to nobody */
  k = head[i];
  printf("    granted to caller %d\n", k);
  assert(!inside[k]);           /* rule 9: a call chain that has lost a lock does not enter it again */
  caller[k] = HOLD; st[i] = HELD; ahead[i] = NONE;
  nextHead(i, NEIGHBOUR(k));
  nextToken(i);
  /* At most one holder believes in its lease. The library cannot protect a holder from a client that deletes its znode. */
  y = 0;
  for (x : 0 .. CALLERS - 1) {
    y = y + (caller[x] == HOLD && TRUSTED(PROCESS(PLACE(x))) && !robbed[PLACE(x)])
  }
  assert(y <= 1)
}

/* The place has no znode any more. */
inline reset(i) {
  st[i] = IDLE; own[i] = GONE; ahead[i] = NONE;
  used[i] = 0; joined[i] = false; revoked[i] = false; robbed[i] = false;
  from[i] = 0; early[i] = 0; nth[i] = 0
}

inline markDeleted(i) { if :: own[i] < NONE -> queue[own[i]] = queue[own[i]] | DELETE :: else fi }
/* Rule 3, step 5: the deletion is sent after the lease has ended, again and again. */
inline leave(i) { markDeleted(i); reset(i) }

#define CLOSES(i) ((revoked[i] && BUG != HANDS_OVER_AFTER_REVOCATION) || (!TRUSTED(PROCESS(i)) && BUG != HANDS_OVER_AFTER_PAUSE))
/* Rule 7, step 6: the last lease has ended. The next caller is granted the lock, or the znode lingers, or it is deleted. */
inline advance(i, keep) {
  if
  :: STRICT && own[i] < NONE && !revoked[i] ->
    queue[own[i]] = queue[own[i]] | RELEASED; heldFrom[PROCESS(i)] = from[i]; heldNth[PROCESS(i)] = nth[i];
    leave(i)
  :: !STRICT && !CLOSES(i) && !WAITS(i) && keep -> st[i] = LINGER
  :: !STRICT && !CLOSES(i) && WAITS(i) && used[i] == BUDGET -> st[i] = DEFERRED
  :: !STRICT && !CLOSES(i) && WAITS(i) && used[i] < BUDGET ->
    used[i] = used[i] + (BUG != HANDS_OVER_WITHOUT_LIMIT);
    nth[i] = nth[i] + (TOKENS && BUG != REPEATS_TOKEN_ON_HANDOVER);
    grant(i)
  :: else -> leave(i)
  fi
}

inline loseCallers(i) {
  if :: caller[FIRSTCALLER(i)] == HOLD -> caller[FIRSTCALLER(i)] = LATE :: else fi;
  if :: caller[LASTCALLER(i)] == HOLD -> caller[LASTCALLER(i)] = LATE :: else fi
}

/* ---- Places ---- */

/* Rule 2, step 2: a listing. */
inline list(i) {
  from[i] = (TOKENS -> pzxid : 0);
  if :: early[i] == 0 && (KEEPER || BUG == TAKES_TOKEN_FROM_OWN_CREATE) -> early[i] = from[i] :: else fi;
  if
  :: own[i] == GONE && BUG == GRANTS_WITHOUT_OWN_NODE ->
    robbed[i] = false;
    if :: size == 0 -> st[i] = FIRST :: else -> ahead[i] = 0; st[i] = WATCH fi
  :: own[i] == GONE && BUG != GRANTS_WITHOUT_OWN_NODE -> reset(i)
  :: own[i] == 0 || (own[i] < NONE && BUG == TAKES_ANY_LOCK_AS_FREE && !joined[i]) -> st[i] = FIRST
  :: own[i] < NONE && own[i] > 0 && BUG == FORGETS_FIRST_CREATE && !joined[i] -> reset(i); joined[i] = true
  :: else ->
    ahead[i] = own[i] - 1;
    st[i] = (BUG == WATCHES_WITHOUT_READING -> SEARCHING : WATCH)
  fi;
  if :: st[i] != FIRST -> from[i] = 0 :: BUG == TAKES_TOKEN_FROM_OWN_CREATE && st[i] == FIRST -> from[i] = early[i] :: else fi;
  if :: st[i] != IDLE && (BUG == TAKES_ANY_LOCK_AS_FREE || BUG == FORGETS_FIRST_CREATE) -> joined[i] = true :: else fi
}

/* The reply that grants the lock has arrived. Rule 5: a pause may have outlived the session. */
inline receive(i) {
  if
  :: !TRUSTED(PROCESS(i)) -> st[i] = LIST
  :: TRUSTED(PROCESS(i)) && WAITS(i) -> grant(i)
  :: else -> if :: BUG == KEEPS_NODE_WITHOUT_WAITERS -> reset(i) :: else -> leave(i) fi
  fi
}

/* On Keeper the token is the zxid of a write after the listing. */
#define WRITES(i) (KEEPER && BUG != TOKEN_FROM_PZXID_WITHOUT_A_RISE && \
  !(BUG == TOKEN_FROM_RISEN_PZXID && from[i] > early[i]) && !(BUG == TOKEN_OF_FREE_LOCK_FROM_PZXID && from[i] == early[i]))

/* Strict order, step 6: whether a caller may continue the hold that another caller of its session has released just ahead. */
#define SAMEPLACE(i, j) ((j) < PLACES && (j) != (i) && st[j] == WATCH && ahead[j] == ahead[i])
#define ALONE(i) (!SAMEPLACE(i, 0) && !SAMEPLACE(i, 1) && !SAMEPLACE(i, 2) && !SAMEPLACE(i, 3))
#define FOLLOWS(i) (TRUSTED(PROCESS(i)) && \
  (BUG == STRICT_CALLER_SUCCEEDS_ANY_HOLDER -> ANY(PROCESS(i), RELEASED | OLD, RELEASED) \
   : HAS(ahead[i], PROCESS(i), RELEASED | OLD, RELEASED) && ALONE(i)))
inline follow(i) {
  from[i] = heldFrom[PROCESS(i)];
  nth[i] = heldNth[PROCESS(i)] + (TOKENS && BUG != STRICT_CALLER_REPEATS_TOKEN);
  if :: BUG == STRICT_CALLER_SUCCEEDS_ANY_HOLDER
  :: else -> queue[ahead[i]] = queue[ahead[i]] & ~RELEASED; heldFrom[PROCESS(i)] = 0; heldNth[PROCESS(i)] = 0
  fi;
  grant(i)
}

#define HOLDS(i) (st[i] == HELD || st[i] == DEFERRED || st[i] == LINGER)
#define FINDS(i) (own[i] != GONE && !behind[PROCESS(i)] && BUG != CREATES_AGAIN_WITHOUT_SEARCH)
#define CREATES(i) (st[i] == IDLE && WAITS(i) && up[PROCESS(i)] && size < SIZE)

proctype Place(byte i) {
end:
  do
  /* Rule 1, step 1: the create. Its reply or its request may be lost. */
  :: d_step { CREATES(i) -> printf("place %d: create\n", i); create(i); st[i] = LIST }
  :: d_step { CREATES(i) && faults > 0 -> printf("place %d: create, reply lost\n", i);
      create(i); st[i] = UNKNOWN; faults--; up[PROCESS(i)] = false }
  :: d_step { CREATES(i) && faults > 0 -> printf("place %d: create, request lost\n", i);
      st[i] = UNKNOWN; faults--; up[PROCESS(i)] = false }
  /* After a lost reply the znode is searched for. It is created again only if it does not exist. */
  :: d_step { st[i] == UNKNOWN && up[PROCESS(i)] -> printf("place %d: search\n", i);
      if :: FINDS(i) -> st[i] = LIST :: else -> reset(i) fi }
  :: d_step { st[i] == LIST && up[PROCESS(i)] -> printf("place %d: list\n", i); list(i) }
  /* The random part of its name puts the znode first. */
  :: d_step { BUG == ORDERS_QUEUE_BY_NAME && st[i] == LIST && up[PROCESS(i)] && own[i] < NONE ->
      printf("place %d: list by name\n", i); from[i] = pzxid; st[i] = FIRST }
  :: d_step { st[i] == SEARCHING && up[PROCESS(i)] -> printf("place %d: watch\n", i);
      st[i] = (ahead[i] == GONE -> STUCK : WATCH) }
  :: d_step { st[i] == WATCH && ahead[i] == GONE && up[PROCESS(i)] -> printf("place %d: notified\n", i);
      st[i] = LIST; ahead[i] = NONE }
  :: d_step { st[i] == FIRST && !WRITES(i) -> printf("place %d: listing arrives\n", i); receive(i) }
  :: d_step { st[i] == FIRST && WRITES(i) && up[PROCESS(i)] -> printf("place %d: write\n", i);
      if :: own[i] == GONE -> reset(i) :: else -> zxid++; from[i] = zxid; st[i] = WRITTEN; renumber() fi }
  :: d_step { st[i] == WRITTEN -> printf("place %d: reply to the write arrives\n", i); receive(i) }
  /* Strict order. A caller watches its own znode while it waits. */
  :: d_step { STRICT && st[i] == WATCH && FOLLOWS(i) -> printf("place %d: succeed\n", i); follow(i) }
  :: d_step { STRICT && st[i] == WATCH && robbed[i] && up[PROCESS(i)] -> printf("place %d: own znode gone\n", i);
      robbed[i] = false; if :: BUG == STRICT_CALLER_WITHOUT_OWN_ZNODE :: else -> reset(i) fi }
  /* Rule 7: when the budget is spent, the queue is listed. */
  :: d_step { st[i] == DEFERRED && up[PROCESS(i)] -> printf("place %d: list contenders\n", i);
      if :: size > 1 || own[i] == GONE -> leave(i) :: else -> used[i] = 0; advance(i, false) fi }
  :: d_step { st[i] == DEFERRED && !TRUSTED(PROCESS(i)) -> printf("place %d: close\n", i); leave(i) }
  :: d_step { st[i] == LINGER && WAITS(i) -> printf("place %d: grant while lingering\n", i); advance(i, false) }
  :: d_step { st[i] == LINGER && size > 1 && up[PROCESS(i)] && BUG != LINGERS_DESPITE_ARRIVALS ->
      printf("place %d: yield\n", i); leave(i) }
  /* The timer is not a substitute for the watch: it does not fire while others wait. */
  :: d_step { st[i] == LINGER && size <= 1 && !WAITS(i) -> printf("place %d: linger is over\n", i); leave(i) }
  /* A holder watches its own znode. */
  :: d_step { HOLDS(i) && robbed[i] && up[PROCESS(i)] -> printf("place %d: lost, its znode is gone\n", i);
      robbed[i] = false; if :: BUG == IGNORES_DELETION_OF_OWN_NODE :: else -> loseCallers(i); reset(i) fi }
  :: d_step { st[i] == HELD && own[i] < NONE && !revoked[i] && faults > 0 && up[PROCESS(i)] ->
      printf("place %d: revoked\n", i); faults--; revoked[i] = true }
  od
}

/* ---- Callers ---- */

inline finish(c) {
  caller[c] = (ROUNDS == 0 || (ROUNDS == 2 && round[c] == 0) -> REST : DONE);
  round[c] = (ROUNDS == 2)
}

/* Rule 3: the last caller of a place has given up. A grant that is on its way finds no caller. */
inline abandon(i) {
  if
  :: st[i] == UNKNOWN ->
    if :: own[i] < NONE && BUG != FORGETS_NODE_OF_LOST_CREATE -> queue[own[i]] = queue[own[i]] | HIDDEN :: else fi;
    reset(i)
  :: st[i] == FIRST || st[i] == WRITTEN || st[i] == IDLE || st[i] == HELD || st[i] == LINGER
  :: else -> if :: BUG == FORGETS_NODE_OF_CANCELLED_WAIT -> reset(i) :: else -> leave(i) fi
  fi
}

/*
 * The processes are alike, and so are the callers of a process. So only runs are searched in which the first requests come
 * in the order of the numbers. Each other run is one of these with other numbers.
 */
#define MAYBEGIN(c) (ROUNDS != 1 || c == 0 || caller[c - (c % NC == 0 -> NC : 1)] != REST)

proctype Caller(byte c) {
end:
  do
  :: d_step { caller[c] == REST && MAYBEGIN(c) -> printf("caller %d: request\n", c);
      if :: caller[NEIGHBOUR(c)] != WAIT -> head[PLACE(c)] = c :: else fi;
      caller[c] = WAIT }
  :: d_step { caller[c] == WAIT && faults > 0 -> printf("caller %d: cancel\n", c);
      faults--; finish(c); nextHead(PLACE(c), NEIGHBOUR(c));
      if :: WAITS(PLACE(c)) :: else -> abandon(PLACE(c)) fi }
  :: d_step { caller[c] == HOLD -> printf("caller %d: release\n", c); finish(c); advance(PLACE(c), false) }
  :: d_step { caller[c] == HOLD && !STRICT -> printf("caller %d: release, linger\n", c); finish(c); advance(PLACE(c), true) }
  :: d_step { caller[c] == HOLD && faults > 0 -> printf("caller %d: holdAtMost is over\n", c);
      faults--; caller[c] = LATE; advance(PLACE(c), false) }
  /* The release of a lost lease does nothing. */
  :: d_step { caller[c] == LATE -> printf("caller %d: late release\n", c);
      finish(c); if :: BUG == LATE_RELEASE_FREES_NEXT_HOLDER -> markDeleted(PLACE(c)) :: else fi }
  :: d_step { BUG == RE_ENTERS_LOST_LEASE && caller[c] == LATE && !WAITS(PLACE(c)) -> printf("caller %d: enter again\n", c);
      inside[c] = true; caller[c] = WAIT; head[PLACE(c)] = c }
  od
}

/* ---- Sessions ---- */

/* Step 8: the leases of a session end with it, and its waiters join the queue again. */
inline endSession(p) {
  for (y : FIRSTPLACE(p) .. LASTPLACE(p)) {
    assert(BUG != WAIT_ENDS_WITH_SESSION || st[y] == IDLE || !WAITS(y)); /* a wait ends with a grant, or its caller gives up */
    behind[p] = behind[p] || (BUG == RETRIES_CREATE_ACROSS_SESSIONS && st[y] == UNKNOWN);
    loseCallers(y);
    reset(y)
  }
  for (x : 0 .. SIZE - 1) { if :: HAS(x, p, 0, 0) -> queue[x] = p | OLD :: else fi };
  heldFrom[p] = 0; heldNth[p] = 0
}

inline connected(p) { up[p] = true; idle[p] = 0; age[p] = 0 }

#define LOSABLE(i) (DELETIONS && faults > 0 && own[i] < NONE && st[i] != UNKNOWN)
inline rob(i) { printf("place %d: another client deletes its znode\n", i); faults--; robbed[i] = true; k = own[i]; remove(k) }

/*
 * The session of a process. A lost connection, a pause of the process and a follower that has lost its leader are one fault
 * here: the leader hears nothing from the session, and the client acts whenever it likes.
 */
proctype Session(byte p) {
end:
  do
  /* A session without a znode has nothing to lose. */
  :: d_step { up[p] && faults > 0 && (ANY(p, OLD, 0) || !ALLIDLE(p)) -> printf("process %d: disconnected or paused\n", p);
      faults--; up[p] = false }
  /* The two clocks. Nothing depends on the time before the deadline, so it passes in one step. */
  :: d_step { !up[p] && idle[p] == 0 -> printf("process %d: 3/4 of the timeout pass\n", p); idle[p] = 3; age[p] = 3 }
  :: d_step { !up[p] && idle[p] == 3 -> printf("process %d: the timeout passes\n", p); idle[p] = 4; age[p] = 4 }
  /* The clock of the client is a quarter slower. */
  :: d_step { !up[p] && idle[p] == 0 -> printf("process %d: the timeout passes, its clock is slow\n", p);
      idle[p] = 4; age[p] = 3 }
  /* In between the client has read a reply that waited in its socket, or that of a follower without a leader. */
  :: d_step { (BUG == COUNTS_DEADLINE_FROM_REPLY || BUG == READS_EXTEND_DEADLINE) && !up[p] && idle[p] == 0 ->
      printf("process %d: the timeout passes, with a reply in between\n", p); idle[p] = 4; age[p] = 2 }
  :: d_step { !up[p] && idle[p] == TIMEOUT && !expired[p] -> printf("process %d: expired\n", p);
      expired[p] = true; robbed[FIRSTPLACE(p)] = false; robbed[LASTPLACE(p)] = false; removeAll(p, OLD, 0) }
  /* Rule 4, step 3. */
  :: d_step { !up[p] && !ended[p] && age[p] >= DEADLINE && BUG != DECLARES_LOST_ONLY_ON_RECONNECT ->
      printf("process %d: declares its session lost\n", p); ended[p] = true; endSession(p) }
  /* The client connects again, in the same session or in a new one. */
  :: d_step { !up[p] && !expired[p] && TRUSTED(p) -> printf("process %d: connected\n", p);
      for (x : FIRSTPLACE(p) .. LASTPLACE(p)) {
        if :: BUG == FORGETS_WATCHES_ON_RECONNECT && st[x] == WATCH -> st[x] = STUCK :: else fi
      };
      connected(p) }
  :: d_step { BUG == NO_SYNC_AFTER_RECONNECT && !up[p] && !expired[p] && TRUSTED(p) ->
      printf("process %d: connected to a server that lags\n", p); connected(p); behind[p] = true }
  :: d_step { BUG == NO_SYNC_AFTER_RECONNECT && behind[p] -> printf("process %d: its server is up to date\n", p);
      behind[p] = false }
  :: d_step { !up[p] && (expired[p] || ended[p]) -> printf("process %d: connected in a new session\n", p);
      if :: ended[p] :: else -> endSession(p) fi;
      connected(p); ended[p] = false; expired[p] = false;
      if :: BUG == RETRIES_CREATE_ACROSS_SESSIONS && behind[p] -> behind[p] = false; queue[size] = p; size++; transaction(true)
      :: else fi }
  /* The leader expires a session that the client has given up. */
  :: d_step { ANY(p, OLD, OLD) -> printf("process %d: its former session expires\n", p); removeAll(p, OLD, OLD) }
  /* Rule 3: a deletion is sent again until a server has answered. */
  :: d_step { up[p] && TODELETE(p) -> printf("process %d: delete\n", p); removeAll(p, DELETE | OLD, DELETE) }
  :: d_step { BUG == DOES_NOT_RETRY_RELEASE && up[p] && TODELETE(p) && faults > 0 ->
      printf("process %d: delete, request lost\n", p); faults--; up[p] = false;
      for (x : 0 .. SIZE - 1) { if :: HAS(x, p, 0, 0) -> queue[x] = queue[x] & ~(DELETE | RELEASED) :: else fi };
      k = 0 }
  :: d_step { up[p] && TOFIND(p) -> printf("process %d: find and delete\n", p); removeAll(p, HIDDEN | OLD, HIDDEN) }
  :: d_step { LOSABLE(FIRSTPLACE(p)) -> rob(FIRSTPLACE(p)) }
  :: d_step { STRICT && LOSABLE(LASTPLACE(p)) -> rob(LASTPLACE(p)) }
  od
}

init {
  d_step {
    for (x : 0 .. NP - 1) { up[x] = true };
    for (x : 0 .. PLACES - 1) { own[x] = GONE; ahead[x] = NONE };
    k = 0
  }
  atomic {
    byte n;
    for (n : 0 .. NP - 1) { run Session(n) }
    for (n : 0 .. PLACES - 1) { run Place(n) }
    for (n : 0 .. CALLERS - 1) { run Caller(n) }
    n = 0
  }
  /* Each run gets here. If one does not, a caller waits for ever: an invalid end state. */
  ROUNDS == 0 || (QUIET(0) && QUIET(1) && QUIET(NP - 1));
  assert(ROUNDS == 0 || size == 0) /* no znode is left */
}

#if ROUNDS == 0
/* No caller waits for ever. The last caller stands for all, because the processes are alike, and so are their callers. */
ltl served { [] <> (caller[CALLERS - 1] != WAIT) }
#endif

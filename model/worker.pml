/*
 * A worker: a process with one MailboxLoop (src/loops/_mailbox_run.ts, src/loops/_settler.ts,
 * src/loops/handler.ts, src/mailbox/dead_letters.ts). In the macros, w is the worker and j one of its items.
 */

#define STAGE(w, j) stage[ITEM(w, j)]
#define IS_LIVE(w) (phase[w] <= CANCELLING && !HAS(frozen, w))
#define IS_CONNECTED(w) (IS_LIVE(w) && !HAS(dropped, w))
#define IS_STALE(w, j) (handle[MESSAGE(j)] != ITEM(w, j) + 1)

#define TAKES_SLOT(w, j) (STAGE(w, j) >= WAITING && STAGE(w, j) <= ALONE)
#define IS_RUNNING(w, j) (STAGE(w, j) == RUNNING || STAGE(w, j) == ALONE)
#define RUNS_ALONE(w, j) (STAGE(w, j) == ALONE)
#define IS_WAITING(w, j) (STAGE(w, j) == WAITING || STAGE(w, j) == SUSPECT)
#define IS_USED(w, j) (STAGE(w, j) != NONE)
#define HOLDS(w, j) (STAGE(w, j) != NONE && STAGE(w, j) != ABANDONED)

/*
 * Chooses an item of worker w for which P holds, if C does: one branch of the search for each. It is the first
 * statement of an atomic step, so that the step is possible only if there is such an item.
 */
#define CHOICE(C, P, n) :: C && P(w, n) -> j = n
#if MESSAGES * COPIES == 6
#define ITEM_WHERE(C, P) if CHOICE(C, P, 0) CHOICE(C, P, 1) CHOICE(C, P, 2) \
  CHOICE(C, P, 3) CHOICE(C, P, 4) CHOICE(C, P, 5) fi
#elif MESSAGES * COPIES == 3
#define ITEM_WHERE(C, P) if CHOICE(C, P, 0) CHOICE(C, P, 1) CHOICE(C, P, 2) fi
#else
#define ITEM_WHERE(C, P) if CHOICE(C, P, 0) CHOICE(C, P, 1) fi
#endif

/* ---- Receive ---------------------------------------------------------------------------------------------*/

/*
 * Workers that have done nothing yet are interchangeable. Of several, only the one with the lowest number acts:
 * the other runs are the same with the numbers exchanged.
 */
#define LEASES_NONE(w) (!(handle[0] && HOLDER(0) == w) && !(handle[1] && HOLDER(1) == w) && LEASES_NOT_THIRD(w))
#if MESSAGES == 3
#define LEASES_NOT_THIRD(w) !(handle[2] && HOLDER(2) == w)
#else
#define LEASES_NOT_THIRD(w) true
#endif
#if defined(WAKING) || defined(OWNERS)
#define IS_LOWEST(w) true
#else
#define IS_FRESH(w) (phase[w] == UP && !ANY(IS_USED, w) && !HAS(frozen | isolating, w) && LEASES_NONE(w))
#define IS_LOWEST(w) (w == 0 || !IS_FRESH(w) || (!IS_FRESH(0) && (w == 1 || !IS_FRESH(1))))
#endif

/* The same for messages that wait for their first delivery: of those without a key, the oldest comes first. */
#define IS_UNUSED(m) (stage[ITEM(0, (m) * COPIES)] == NONE && stage[ITEM(1, (m) * COPIES)] == NONE && \
  stage[ITEM(WORKERS - 1, (m) * COPIES)] == NONE)
#if COPIES == 2
#define IS_UNTOUCHED(m) (IS_UNUSED(m) && stage[ITEM(0, (m) * 2 + 1)] == NONE && \
  stage[ITEM(1, (m) * 2 + 1)] == NONE && stage[ITEM(WORKERS - 1, (m) * 2 + 1)] == NONE)
#else
#define IS_UNTOUCHED(m) IS_UNUSED(m)
#endif
#define IS_NEW(m) (HAS(ready & NOT(KEYED | POISON | HANGING | completed), m) && \
  deliveries[m] + expiries[m] + failures[m] == 0 && IS_UNTOUCHED(m))

#define FREE(w) (HAS(isolating, w) -> (open[w] == 0 -> 1 : 0) : SLOTS - SUM(TAKES_SLOT, w))
#ifdef WAKING
#define IS_ASKING(w) (wakefulness[w] == ASKING)
#else
#define IS_ASKING(w) true
#endif
#define MAY_RECEIVE(w) (phase[w] == UP && IS_CONNECTED(w) && IS_ASKING(w) && IS_LOWEST(w))

/* A set of `count` messages can be received: all of them are ready, and there are slots for them. */
#define CAN_RECEIVE(set, count) (MAY_RECEIVE(w) && !((set) & NOT(ready)) && FREE(w) >= count)
/* Neither of two messages is received before an older one that is new as well. */
#define IN_ORDER(older, newer) !(IS_NEW(newer) && IS_NEW(older))

#define SUSPECT_AFTER 2
#ifdef BUG_SUSPECTS_RUN_BESIDE_OTHERS
#define IS_SUSPECT(m) false
#else
#define IS_SUSPECT(m) (expiries[m] >= SUSPECT_AFTER)
#endif

/* Takes a received batch: suspects are released, unless there is only one message and it can run alone. */
inline receive(set, count) {
  ok = 0; /* whether there are suspects */
  for (m : 0 .. MESSAGES - 1) {
    if
    :: (set) & B(m) ->
      k = m * COPIES;
#if COPIES == 2
      k = k + (STAGE(w, k) != NONE);
#endif
      deliver(m, ITEM(w, k));
      STAGE(w, k) = WAITING;
      open[w]++;
      if
      :: IS_SUSPECT(m) -> ok = 1; STAGE(w, k) = SUSPECT
      :: else
      fi
    :: else
    fi
  }
  if
  :: ok ->
#ifndef BUG_SUSPECTS_RECEIVED_TOGETHER
    ADD(isolating, w);
#endif
    if
    :: open[w] > 1 ->
      for (m : 0 .. MESSAGES - 1) {
        if
        :: ((set) & B(m)) && IS_SUSPECT(m) -> stage[handle[m] - 1] = RELEASE_SUSPECT
        :: else
        fi
      }
    :: else
    fi
  :: else -> DROP(isolating, w)
  fi
}

/* The worker has an unused item for each message of the set. */
#if COPIES == 2
#define HAS_ROOM(set, m) (!HAS(set, m) || STAGE(w, m * 2) == NONE || STAGE(w, m * 2 + 1) == NONE)
#else
#define HAS_ROOM(set, m) (!HAS(set, m) || STAGE(w, m) == NONE)
#endif
#if MESSAGES == 3
#define HAS_ROOM_FOR(set) (HAS_ROOM(set, 0) && HAS_ROOM(set, 1) && HAS_ROOM(set, 2))
#else
#define HAS_ROOM_FOR(set) (HAS_ROOM(set, 0) && HAS_ROOM(set, 1))
#endif

/* ---- Handle ----------------------------------------------------------------------------------------------*/

#define CAN_START(w, j) ((STAGE(w, j) == WAITING && !ANY(RUNS_ALONE, w)) || \
  (STAGE(w, j) == SUSPECT && !ANY(IS_RUNNING, w)))
#define IS_SPENT(m) (deliveries[m] > MAX_DELIVERIES && expiries[m] >= SPENT_AFTER)

/* Nothing has happened that may cost a duplicate. */
#if POISON == 0 && HANGING == 0 && !defined(DEADLINE)
#define IS_FAULTLESS (crashesLeft == CRASHES && freezesLeft == FREEZES && lostCallsLeft == LOST_CALLS)
#else
#define IS_FAULTLESS false
#endif
inline check_duplicate(id) {
  if
  :: HAS(completed, id) && IS_FAULTLESS -> VIOLATED(no_duplicate)
  :: else
  fi
}

inline start() {
  m = MESSAGE(j);
  check_duplicate(m);
  if
  :: IS_SPENT(m) -> STAGE(w, j) = DEAD_LETTER
  :: else -> STAGE(w, j) = (STAGE(w, j) == SUSPECT -> ALONE : RUNNING)
  fi
}

#define CAN_COMPLETE(w, j) (IS_RUNNING(w, j) && !HAS(POISON | HANGING, MESSAGE(j)))
inline complete() {
  m = MESSAGE(j);
  check_duplicate(m);
  ADD(completed, m);
  STAGE(w, j) = ACKNOWLEDGE
}

/* The policy counts the failed attempts: the deliveries without those that ended unsettled. */
inline fail() {
  m = MESSAGE(j);
  failuresLeft--;
  STAGE(w, j) = (deliveries[m] - expiries[m] >= MAX_DELIVERIES -> DEAD_LETTER : NACK)
}

#define CAN_KILL(w, j) (IS_RUNNING(w, j) && HAS(POISON, MESSAGE(j)))
#ifdef WATCHDOG
#define IS_STALLED(w, j) (STAGE(w, j) >= RUNNING && STAGE(w, j) <= ABANDONED && HAS(HANGING, MESSAGE(j)))
#else
#define IS_STALLED(w, j) false
#endif

/* An extension is refused: the message belongs to another worker. */
#define CAN_LOSE(w, j) (IS_STALE(w, j) && (IS_WAITING(w, j) || CAN_COMPLETE(w, j)))
#define CAN_EXTEND(w, j) (HAS(due, MESSAGE(j)) && !IS_STALE(w, j) && TAKES_SLOT(w, j))

/* ---- Settle ----------------------------------------------------------------------------------------------*/

#define CAN_SETTLE(w, j) (STAGE(w, j) >= ACKNOWLEDGE)
#define IS_FIRST_CALL(w, j) (CAN_SETTLE(w, j) && call[ITEM(w, j)] == FIRST)
/* An acknowledgement is repeated until the deadline, or until its lease is over. */
#define CAN_GIVE_UP(w, j) (CAN_SETTLE(w, j) && call[ITEM(w, j)] != FIRST && \
  (STAGE(w, j) != ACKNOWLEDGE || phase[w] == CANCELLING))

/* Counts the outcome of a delivery. */
inline close() {
  STAGE(w, j) = NONE;
  call[ITEM(w, j)] = FIRST;
  open[w]--
}

inline settle_answered() {
  m = MESSAGE(j);
  settle_again(m, ITEM(w, j));
  if
  :: !ok && call[ITEM(w, j)] == COMMITTED -> VIOLATED(settlement_is_counted)
  :: else
  fi;
  close()
}

inline settle_unanswered() {
  lostCallsLeft--;
  m = MESSAGE(j);
  settle(m, ITEM(w, j));
  call[ITEM(w, j)] = (ok -> COMMITTED : FAILED)
}

/* ---- Stop ------------------------------------------------------------------------------------------------*/

/* Messages that were not started are released. */
inline stop() {
  for (j : 0 .. ITEMS - 1) {
    if
    :: IS_WAITING(w, j) ->
#ifdef BUG_STOP_KEEPS_UNSTARTED
      STAGE(w, j) = NONE;
      open[w]--
#else
      STAGE(w, j) = RELEASE
#endif
#ifdef BUG_STOP_RELEASES_RUNNING
    :: IS_RUNNING(w, j) -> abandon()
#endif
    :: else
    fi
  }
  DROP(isolating, w);
  phase[w] = DRAINING;
  stopsLeft--
}

/* Releases a message whose handler still runs. Its item is counted now, and not when the handler ends. */
inline abandon() {
  m = MESSAGE(j);
  STAGE(w, j) = RELEASE;
  settle(m, ITEM(w, j));
  STAGE(w, j) = ABANDONED;
  open[w]--
}

#define CAN_COMPLETE_LATE(w, j) (STAGE(w, j) == ABANDONED && !HAS(POISON | HANGING, MESSAGE(j)))
inline complete_late() {
  m = MESSAGE(j);
  check_duplicate(m);
  ADD(completed, m);
  STAGE(w, j) = NONE;
#ifdef BUG_ABANDONED_COUNTED_TWICE
  open[w]--;
#endif
  m = 0
}

#ifdef BUG_STOP_WAITS_FOR_HANDLERS
#define MAY_EXIT(w) (!ANY(IS_USED, w))
#else
#define MAY_EXIT(w) true
#endif

/* A loop that has drained leaves no lease, unless a call failed. */
inline end_stop() {
  for (m : 0 .. MESSAGES - 1) {
    if
    :: handle[m] && HOLDER(m) == w && !HAS(orphaned, m) && lostCallsLeft == LOST_CALLS ->
      VIOLATED(stop_leaves_nothing)
    :: else
    fi
  }
  phase[w] = ENDED
}

/* ---- The process -----------------------------------------------------------------------------------------*/

inline start_process() {
  phase[w] = UP
#ifdef WAKING
  ; wakefulness[w] = ASKING
#endif
}

/* What the process holds is gone. Its leases remain in the engine. */
inline end_process(last) {
  for (j : 0 .. ITEMS - 1) {
    if
    :: !IS_STALE(w, j) -> ADD(orphaned, MESSAGE(j))
    :: else
    fi;
    STAGE(w, j) = NONE;
    call[ITEM(w, j)] = FIRST
  }
  open[w] = 0;
  DROP(isolating, w);
  DROP(frozen, w);
#ifdef OWNERS
  DROP(dropped, w);
  DROP(seenDropped, w);
  ADD(deadOwners, w);
  DROP(seenDead, w);
#endif
  phase[w] = last
}

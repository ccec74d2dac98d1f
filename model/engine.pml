/* The engine: src/mailbox/engine.ts, src/mailbox/memory_engine.ts. Every inline is part of one atomic step. */

/* A message with the key waits behind the others that have it. */
inline store(id) {
  ADD(sent, id);
  if
  :: HAS(KEYED, id) && (KEYED & (ready | blocked | delayed | inFlight)) -> ADD(blocked, id)
  :: else -> ADD(ready, id)
  fi
}

inline end_lease(id) {
  DROP(inFlight, id);
  handle[id] = 0;
  DROP(due, id);
  DROP(orphaned, id)
#ifdef BUG_EXTENSION_IGNORED
  ; DROP(ignored, id)
#endif
}

/* The first message of the key has left the line: the next one can be delivered. */
inline leave_line(id) {
  if
  :: HAS(KEYED, id) && blocked ->
    next = blocked & (256 - blocked); /* the lowest bit: the oldest message */
    blocked = blocked - next;
    ready = ready | next
  :: else
  fi
}

/* Nothing extends the lease: its process is dead or suspended, its handler sends no heartbeat, or the loop has
 * given up or repeats a call. */
#define LEASED_ITEM(m) (handle[m] - 1)
#define IS_UNATTENDED(m) (HAS(orphaned, m) || HAS(frozen, HOLDER(m)) || \
  stage[LEASED_ITEM(m)] == NONE || stage[LEASED_ITEM(m)] == ABANDONED || \
  (stage[LEASED_ITEM(m)] <= ALONE && stage[LEASED_ITEM(m)] >= RUNNING && HAS(HANGING, m)) || \
  (stage[LEASED_ITEM(m)] >= ACKNOWLEDGE && call[LEASED_ITEM(m)] != FIRST))

/* The lease is over. The message returns to its position, and stays the first of its key. */
inline expire(id) {
  if
  :: !IS_UNATTENDED(id) -> VIOLATED(extended_lease_lasts)
  :: else
  fi;
  expiries[id]++;
#ifdef BUG_HANDLE_OUTLIVES_LEASE
  DROP(inFlight, id);
#else
  end_lease(id);
#endif
#ifdef BUG_KEY_JOINS_AGAIN
  leave_line(id);
  if
  :: HAS(KEYED, id) && (KEYED & (ready | blocked)) -> ADD(blocked, id)
  :: else -> ADD(ready, id)
  fi
#else
  ADD(ready, id)
#endif
}

/* Delivers a message to an item. The item is the receipt handle: it is used by one delivery at a time. */
inline deliver(id, item) {
  DROP(ready, id);
  ADD(inFlight, id);
  handle[id] = item + 1;
  deliveries[id]++
}

inline extend(id) {
#ifdef BUG_EXTENSION_IGNORED
  ADD(ignored, id);
#endif
  DROP(due, id)
}

#ifdef BUG_HANDLE_IS_THE_WORKER
#define IS_VALID(id, item) (handle[id] != 0 && HOLDER(id) == (item) / ITEMS)
#else
#define IS_VALID(id, item) (handle[id] == (item) + 1)
#endif

#ifdef BUG_ACKNOWLEDGE_WITHOUT_HANDLE
#define ACCEPTS(id, item) \
  (IS_VALID(id, item) || (stage[item] == ACKNOWLEDGE && !HAS(acknowledged | dead, id)))
#elif defined(BUG_RELEASE_AFTER_SETTLING)
#define ACCEPTS(id, item) (IS_VALID(id, item) || stage[item] == RELEASE)
#else
#define ACCEPTS(id, item) IS_VALID(id, item)
#endif

/* One settling call. Sets `ok` to what it returns: a stale receipt handle changes nothing. */
inline settle(id, item) {
  ok = ACCEPTS(id, item);
  if
  :: ok && handle[id] != item + 1 -> VIOLATED(stale_changes_nothing)
  :: else
  fi;
  if
  :: ok && stage[item] == ACKNOWLEDGE ->
    end_lease(id);
    ADD(acknowledged, id);
    leave_line(id)
  :: ok && stage[item] == NACK ->
    end_lease(id);
    failures[id]++;
    ADD(delayed, id)
#ifdef BUG_KEY_UNBLOCKED_BY_NACK
    ; leave_line(id)
#endif
  :: ok && (stage[item] == RELEASE || stage[item] == RELEASE_SUSPECT) ->
    end_lease(id);
#ifndef BUG_RELEASE_COUNTS_ATTEMPT
    deliveries[id]--;
#endif
#ifdef BUG_RELEASE_STAYS_HIDDEN
    ADD(blocked, id)
#else
    ADD(ready, id)
#endif
  :: ok && stage[item] == DEAD_LETTER ->
#ifdef BUG_DEAD_LETTER_IN_TWO_STEPS
    ADD(dead, id); /* another call would remove the message from the queue */
#else
    end_lease(id);
    ADD(dead, id);
#endif
#ifndef BUG_KEY_BLOCKED_BY_DEAD_LETTER
    leave_line(id)
#endif
  :: else
  fi;
  if
#ifdef BUG_RELEASE_WAKES_NO_WORKER
  :: ok && stage[item] != RELEASE -> WAKE
#else
  :: ok -> WAKE
#endif
  :: else
  fi
}

/*
 * A call that follows one whose answer was lost. The engine remembers which receipt handle settled the message,
 * and returns what the first call did.
 */
inline settle_again(id, item) {
  if
#ifndef BUG_REPEATED_CALL_REFUSED
  :: call[item] == COMMITTED -> ok = 1
#endif
  :: else -> settle(id, item)
  fi
}

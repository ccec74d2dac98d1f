/*
 * A model of lastcall for the model checker spin: messages, deliveries, leases, owners, keys, suspects and the
 * stop. docs/model.md explains it; model/configurations.ts and model/variants.ts list the searches.
 *
 *   lastcall.pml      parameters, state, properties, and the processes with all that can happen
 *   engine.pml        the storage: each call is one atomic step
 *   worker.pml        the steps of a process with one MailboxLoop
 *
 * Sets are bit masks: message m is in the set s when s has the bit B(m). Every transition is one atomic step.
 * The parameters bound how often a fault, a stop or an extension can happen, so every run of the correct model
 * is finite.
 */

/* ---- Parameters ------------------------------------------------------------------------------------------ */

#ifndef MESSAGES
#define MESSAGES 3 /* up to 3 */
#endif
#ifndef WORKERS
#define WORKERS 3 /* up to 3 */
#endif
#ifndef SLOTS
#define SLOTS 2 /* messages that wait for a handler or run in one worker */
#endif
#ifndef COPIES
#define COPIES 1 /* deliveries of the same message that one worker can hold: 2 adds a stale one */
#endif
#ifndef MAX_DELIVERIES
#define MAX_DELIVERIES 2 /* a message that failed this often is dead-lettered */
#endif
#ifndef SPENT_AFTER
#define SPENT_AFTER 4 /* a message is dead-lettered unhandled after so many unsettled deliveries */
#endif
#ifndef KEYED
#define KEYED 0 /* the set of messages that have the key; all have the same one */
#endif
#ifndef POISON
#define POISON 0 /* the set of messages whose handler kills its process */
#endif
#ifndef HANGING
#define HANGING 0 /* the set of messages whose handler never ends and ignores its signal */
#endif

/* How often each of these can happen in a run. */
#ifndef CRASHES
#define CRASHES 0 /* a worker that holds messages dies */
#endif
#ifndef FREEZES
#define FREEZES 0 /* a worker that holds messages is suspended: it does nothing until it thaws */
#endif
#ifndef LOST_CALLS
#define LOST_CALLS 0 /* a settling call fails, or it commits and its answer is lost */
#endif
#ifndef FAILURES
#define FAILURES 0 /* a handler throws */
#endif
#ifndef TICKS
#define TICKS 0 /* a lease is nearly over while its worker is well, and has to be extended */
#endif
#ifndef DROPS
#define DROPS 0 /* a worker that holds messages loses its connection for a moment */
#endif
#ifndef STOPS
#define STOPS 0 /* a worker is told to stop */
#endif

/* Switches.
 *   SENDING    the messages are sent during the run, in order; otherwise they are stored at its start
 *   OWNERS     leases last longer than the run: only owner detection ends those of dead workers
 *   WAKING     idle workers sleep until they are woken; otherwise they receive when there is a message
 *   DEADLINE   a stop can pass its deadline
 *   REPLACED   a worker that has stopped is started again
 *   WATCHDOG   the watchdog ends a process with a hanging handler
 *   LIVENESS   checks the formulas; otherwise the assertions
 *   BUG_...    breaks one rule: model/variants.ts describes each
 */

/* ---- State of the engine ----------------------------------------------------------------------------------*/

#define B(m) (1 << (m))
#define ALL ((1 << MESSAGES) - 1)
#define NOT(set) (255 - (set))
#define HAS(set, m) ((set) & B(m))
#define ADD(set, m) set = (set) | B(m)
#define DROP(set, m) set = (set) & (255 - B(m))

byte sent;
byte ready;        /* a receive delivers them */
byte blocked;      /* behind another message of the key */
byte delayed;      /* nacked: hidden until the retry */
byte inFlight;     /* leased */
byte acknowledged;
byte dead;         /* in the dead letters */

byte handle[MESSAGES];     /* the delivery that can settle the message: its item + 1, or 0 */
byte deliveries[MESSAGES]; /* deliveryCount: goes down when a delivery counts no attempt */
byte expiries[MESSAGES];   /* leaseExpiries: how many deliveries ended unsettled */
byte due;                  /* leases that end if they are not extended now */
byte orphaned;             /* leases whose process died */
#ifdef BUG_EXTENSION_IGNORED
byte ignored;              /* leases that were extended, and end all the same */
#endif

/* ---- State of the workers --------------------------------------------------------------------------------*/

/* An item is what a worker holds of one delivery. A message has COPIES items in each worker. */
#define ITEMS (MESSAGES * COPIES)
#define ITEM(w, j) ((w) * ITEMS + (j))
#define MESSAGE(j) ((j) / COPIES)
#define HOLDER(m) ((handle[m] - 1) / ITEMS)

#define NONE 0
#define WAITING 1     /* received; its handler has not started */
#define SUSPECT 2     /* the same for a suspect that will run alone */
#define RUNNING 3
#define ALONE 4       /* the handler of a suspect runs */
#define ABANDONED 5   /* released by the stop, while its handler still runs */
#define ACKNOWLEDGE 6 /* from here on: the handler has ended, and the loop makes this call */
#define NACK 7
#define RELEASE 8
#define RELEASE_SUSPECT 9
#define DEAD_LETTER 10

#define FIRST 0     /* the call was not made yet */
#define FAILED 1    /* a call failed and has changed nothing */
#define COMMITTED 2 /* a call changed the engine, and its answer was lost */

byte stage[WORKERS * ITEMS];
byte call[WORKERS * ITEMS];

#define UP 0
#define DRAINING 1   /* told to stop */
#define CANCELLING 2 /* near the deadline: the handlers are cancelled */
#define ENDED 3      /* stopped */
#define DOWN 4       /* died */

byte phase[WORKERS];
byte open[WORKERS];   /* received - acknowledged - released - nacked - deadLettered - leftToExpire */
byte isolating;       /* workers that received a suspect: they receive one message at a time */
byte frozen;

#ifdef OWNERS
byte dropped;      /* living workers without a connection */
byte deadOwners;   /* registered owners whose process died */
byte seenDead;     /* dead owners that were absent in a look: their grace has begun */
byte seenDropped;  /* living ones that were absent in a look */
#else
#define dropped 0
#endif

#ifdef WAKING
#define ASLEEP 0
#define ASKING 1
#define EMPTY 2 /* the engine had no message; the worker is about to sleep */
byte wakefulness[WORKERS];
#ifdef BUG_WAKE_UP_LOST_BEFORE_SLEEP
#define WAKE_ONE(w) if :: wakefulness[w] == ASLEEP -> wakefulness[w] = ASKING :: else fi
#else
#define WAKE_ONE(w) wakefulness[w] = ASKING
#endif
#if WORKERS == 3
#define WAKE WAKE_ONE(0); WAKE_ONE(1); WAKE_ONE(2)
#else
#define WAKE WAKE_ONE(0); WAKE_ONE(1)
#endif
#else
#define WAKE skip
#endif

/* What is left of each budget. */
byte crashesLeft = CRASHES, freezesLeft = FREEZES, lostCallsLeft = LOST_CALLS, failuresLeft = FAILURES;
byte ticksLeft = TICKS, dropsLeft = DROPS, stopsLeft = STOPS;

/* Observations of the properties. */
byte completed;          /* messages whose handler ended well */
byte failures[MESSAGES]; /* nacks that the engine accepted */

/* Scratch variables of single steps: not part of the state. */
hidden byte j, k, m, ok, next;

/* ---- Properties ------------------------------------------------------------------------------------------ */

/* A violated property is an assertion with its name: model/checker.ts reads it from the answer of spin. */
bit one_place, one_lease, key_order, handled_before_removed, innocents_live, counts_balance;
bit stale_changes_nothing, extended_lease_lasts, settlement_is_counted, no_duplicate, stop_leaves_nothing;
#define VIOLATED(property) assert(property)

#if MESSAGES * COPIES == 6
#define SUM(P, w) (P(w, 0) + P(w, 1) + P(w, 2) + P(w, 3) + P(w, 4) + P(w, 5))
#define ANY(P, w) (P(w, 0) || P(w, 1) || P(w, 2) || P(w, 3) || P(w, 4) || P(w, 5))
#elif MESSAGES * COPIES == 3
#define SUM(P, w) (P(w, 0) + P(w, 1) + P(w, 2))
#define ANY(P, w) (P(w, 0) || P(w, 1) || P(w, 2))
#else
#define SUM(P, w) (P(w, 0) + P(w, 1))
#define ANY(P, w) (P(w, 0) || P(w, 1))
#endif

#include "engine.pml"
#include "worker.pml"

#if MESSAGES == 3
#define ANY_MESSAGE(P) (P(0) || P(1) || P(2))
#define ONE_OF(P) if :: P(0) -> m = 0 :: P(1) -> m = 1 :: P(2) -> m = 2 fi
#else
#define ANY_MESSAGE(P) (P(0) || P(1))
#define ONE_OF(P) if :: P(0) -> m = 0 :: P(1) -> m = 1 fi
#endif

#if WORKERS == 3
#define ANY_WORKER(P) (P(0) || P(1) || P(2))
#else
#define ANY_WORKER(P) (P(0) || P(1))
#endif

/* In none of the sets, or in two: for a union without overlap, the sum of the masks is the union. */
#define ALL_PLACES (ready | blocked | delayed | inFlight | acknowledged | dead)
#define IS_MISPLACED (ALL_PLACES != sent || ready + blocked + delayed + inFlight + acknowledged + dead != sent)

/* A receipt handle is valid exactly while the message is in flight. */
#define LEASE_DIFFERS(m) ((handle[m] != 0) != (HAS(inFlight, m) != 0))

/* A message is with a worker while an earlier one of its key is not finished. */
#define OVERTAKES(m) (HAS(inFlight & KEYED, m) && (KEYED & sent & (B(m) - 1) & NOT(acknowledged | dead)))

/* Only a message that failed too often, or that ends its processes, is dead-lettered. */
#define IS_INNOCENT(m) (HAS(dead & NOT(POISON | HANGING), m) && failures[m] + 1 < MAX_DELIVERIES)

#define UNBALANCED(w) (open[w] != SUM(HOLDS, w))

#ifndef LIVENESS
/* It is started last: spin tries it first in each state. */
proctype Monitor() {
end:
  do
  :: IS_MISPLACED -> VIOLATED(one_place)
  :: ANY_MESSAGE(LEASE_DIFFERS) -> VIOLATED(one_lease)
  :: ANY_MESSAGE(OVERTAKES) -> VIOLATED(key_order)
  :: acknowledged & NOT(completed) -> VIOLATED(handled_before_removed)
  :: ANY_MESSAGE(IS_INNOCENT) -> VIOLATED(innocents_live)
  :: ANY_WORKER(UNBALANCED) -> VIOLATED(counts_balance)
  od
}
#else
#define IS_HANDLED ((acknowledged | dead) == ALL)
#define IS_STOPPING(w) (phase[w] == DRAINING || phase[w] == CANCELLING)
/* Every message is acknowledged or dead-lettered in the end. */
ltl handled_in_the_end { <> IS_HANDLED }
/* A stop that has begun ends. There are finitely many stops, so a moment comes in which none is left. */
ltl stop_ends { [] (ANY_WORKER(IS_STOPPING) -> <> !ANY_WORKER(IS_STOPPING)) }
#endif

/* ---- What happens by itself ------------------------------------------------------------------------------*/

#ifdef BUG_EXTENSION_IGNORED
#define CAN_EXPIRE(m) (handle[m] && (IS_UNATTENDED(m) || HAS(ignored, m)))
#else
#define CAN_EXPIRE(m) (handle[m] && IS_UNATTENDED(m))
#endif
#define IS_DELAYED(m) HAS(delayed, m)
#define NEEDS_EXTENSION(m) (ticksLeft && handle[m] && !HAS(due, m) && !IS_UNATTENDED(m) && stage[LEASED_ITEM(m)] <= ALONE)

#ifdef OWNERS
#define WATCHES(w) (phase[w] == UP && IS_CONNECTED(w))
#define IS_WATCHED ANY_WORKER(WATCHES)
/* Expires the leases of an owner. A lease of a process that was started again is not one of them. */
inline expire_owner(w, set) {
  for (m : 0 .. MESSAGES - 1) {
    if
    :: handle[m] && HOLDER(m) == w && HAS(set, m) -> expire(m)
    :: else
    fi
  }
}
#endif

#ifdef SENDING
active proctype Sender() {
end:
  do
  :: d_step { sent != ALL -> m = (sent == 0 -> 0 : (sent == 1 -> 1 : 2)); store(m); WAKE }
  od
}
#endif

/* A retry is due; a lease is over; a lease of a living worker has to be extended. */
active proctype Time() {
end:
  do
  :: atomic { ONE_OF(IS_DELAYED); d_step { DROP(delayed, m); ADD(ready, m); WAKE } }
#ifndef OWNERS
  :: atomic { ONE_OF(CAN_EXPIRE); d_step { expire(m); WAKE } }
#else
  :: d_step { /* a look */
      IS_WATCHED && (seenDead != deadOwners || seenDropped != dropped) ->
      seenDead = deadOwners;
      seenDropped = dropped
    }
#endif
#if TICKS
  :: atomic { ONE_OF(NEEDS_EXTENSION); d_step { ticksLeft--; ADD(due, m) } }
#endif
  od
}

/* ---- What a worker does, and what happens to it ----------------------------------------------------------*/

proctype Worker(byte w) {
end:
  do
  /* receive */
#define RECEIVE(set, count, order) \
  :: d_step { CAN_RECEIVE(set, count) && HAS_ROOM_FOR(set) && (order) -> receive(set, count) }
  RECEIVE(1, 1, true)
  RECEIVE(2, 1, IN_ORDER(0, 1))
  RECEIVE(3, 2, true)
#if MESSAGES == 3
  RECEIVE(4, 1, IN_ORDER(0, 2) && IN_ORDER(1, 2))
  RECEIVE(5, 2, IN_ORDER(1, 2))
  RECEIVE(6, 2, IN_ORDER(0, 1) && IN_ORDER(0, 2))
  RECEIVE(7, 3, true)
#endif
#ifdef WAKING
  :: d_step { MAY_RECEIVE(w) && FREE(w) && !ready -> wakefulness[w] = EMPTY }
  :: d_step { IS_LIVE(w) && wakefulness[w] == EMPTY -> wakefulness[w] = ASLEEP }
#endif

  /* handle */
  :: atomic { ITEM_WHERE(IS_LIVE(w), CAN_START); d_step { start() } }
  :: atomic { ITEM_WHERE(IS_LIVE(w), CAN_COMPLETE); d_step { complete() } }
  :: atomic { ITEM_WHERE(IS_LIVE(w) && failuresLeft, CAN_COMPLETE); d_step { fail() } }
  :: atomic { ITEM_WHERE(IS_LIVE(w), CAN_LOSE); d_step { close() } }
#if TICKS
  :: atomic { ITEM_WHERE(IS_CONNECTED(w), CAN_EXTEND); d_step { m = MESSAGE(j); extend(m) } }
#endif
#if POISON || HANGING
  :: d_step { IS_LIVE(w) && (ANY(CAN_KILL, w) || ANY(IS_STALLED, w)) -> end_process(DOWN) }
#endif

  /* settle */
  :: atomic { ITEM_WHERE(IS_CONNECTED(w), CAN_SETTLE); d_step { settle_answered() } }
#if LOST_CALLS
  :: atomic { ITEM_WHERE(IS_CONNECTED(w) && lostCallsLeft, IS_FIRST_CALL); d_step { settle_unanswered() } }
  :: atomic { ITEM_WHERE(IS_LIVE(w) && lostCallsLeft, IS_FIRST_CALL);
      d_step { lostCallsLeft--; call[ITEM(w, j)] = FAILED } }
  :: atomic { ITEM_WHERE(IS_LIVE(w), CAN_GIVE_UP); d_step { close() } }
#endif

  /* stop */
#if STOPS
  :: d_step { phase[w] == UP && IS_LIVE(w) && IS_LOWEST(w) && stopsLeft -> stop() }
  :: d_step { phase[w] == DRAINING && IS_LIVE(w) && !ANY(IS_USED, w) -> end_stop() }
#ifdef REPLACED
  :: d_step { phase[w] == ENDED -> start_process() }
#endif
#ifdef DEADLINE
  :: d_step { phase[w] == DRAINING && IS_LIVE(w) -> phase[w] = CANCELLING }
  :: atomic { ITEM_WHERE(phase[w] == CANCELLING && IS_LIVE(w), CAN_COMPLETE); d_step { STAGE(w, j) = RELEASE } }
  :: atomic { ITEM_WHERE(phase[w] == CANCELLING && IS_LIVE(w), IS_RUNNING); d_step { abandon() } }
  :: atomic { ITEM_WHERE(IS_LIVE(w), CAN_COMPLETE_LATE); d_step { complete_late() } }
  :: d_step { phase[w] == CANCELLING && MAY_EXIT(w) -> end_process(ENDED) }
#elif defined(BUG_STOP_RELEASES_RUNNING)
  :: atomic { ITEM_WHERE(IS_LIVE(w), CAN_COMPLETE_LATE); d_step { complete_late() } }
#endif
#endif

  /* the process */
  :: d_step { phase[w] == DOWN -> start_process() }
#if CRASHES
  :: d_step { phase[w] <= CANCELLING && crashesLeft && ANY(IS_USED, w) -> crashesLeft--; end_process(DOWN) }
#endif
#if FREEZES
  :: d_step { IS_LIVE(w) && freezesLeft && ANY(IS_USED, w) -> freezesLeft--; ADD(frozen, w) }
  :: d_step { HAS(frozen, w) -> DROP(frozen, w) }
#endif

  /* its owner: src/engines/_kit/owners.ts */
#ifdef OWNERS
#if DROPS
  :: d_step { IS_CONNECTED(w) && dropsLeft && ANY(IS_USED, w) -> dropsLeft--; ADD(dropped, w) }
  :: d_step { HAS(dropped, w) && !HAS(frozen, w) -> DROP(dropped, w); DROP(seenDropped, w) }
#endif
  :: d_step { /* the grace of a dead owner has passed */
      IS_WATCHED && HAS(seenDead, w) ->
#ifdef BUG_OWNER_KNOWN_BY_NAME
      expire_owner(w, ALL);
#else
      expire_owner(w, orphaned);
#endif
      DROP(deadOwners, w);
      DROP(seenDead, w);
      WAKE
    }
  :: d_step { /* the grace of an absent owner has passed: within it, a process that is well reconnects */
#ifdef BUG_NO_GRACE
      IS_WATCHED && HAS(seenDropped, w) ->
#else
      IS_WATCHED && HAS(seenDropped, w) && HAS(frozen, w) ->
#endif
      expire_owner(w, NOT(orphaned));
      DROP(seenDropped, w);
      WAKE
    }
#endif
  od
}

init {
  atomic {
#ifndef SENDING
    for (m : 0 .. MESSAGES - 1) { store(m) }
#endif
#ifdef WAKING
    for (k : 0 .. WORKERS - 1) { wakefulness[k] = ASKING }
#endif
    run Worker(0);
    run Worker(1);
#if WORKERS == 3
    run Worker(2);
#endif
#ifndef LIVENESS
    run Monitor();
#endif
    m = 0; k = 0
  }
}

/* The C interface of the core, libkungfu.so, for the TensorFlow kernels and Python's ctypes.
 *
 * Plain C, so that both sides may be built by different compilers. One peer per process: it is started by the first
 * call that needs it, or by kungfu_init. Without KUNGFU_SELF in the environment the process is one of one.
 *
 * Any thread may call any function. Functions that return int return a status code (0 is OK, TensorFlow's numbers);
 * the text of the calling thread's last error is kungfu_last_error(). */

#ifndef KUNGFU_C_API_KUNGFU_H_
#define KUNGFU_C_API_KUNGFU_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define KUNGFU_EXPORT __attribute__((visibility("default")))
#else
#define KUNGFU_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a struct or function of this file is added, or changes its meaning. */
#define KUNGFU_ABI_VERSION 16
KUNGFU_EXPORT int kungfu_abi_version(void);
KUNGFU_EXPORT const char* kungfu_version(void);
KUNGFU_EXPORT const char* kungfu_last_error(void);

/* -- The process -------------------------------------------------------------------------------------------- */

KUNGFU_EXPORT int kungfu_init(void);     /* starts the peer; again: nothing */
KUNGFU_EXPORT int kungfu_shutdown(void); /* ends it: pending operations fail with CANCELLED; afterwards: an error */

/* Where this process stands. Starts no peer: without one, the environment says so; after a fork, what was known then.
 * -1 and kungfu_last_error() if that cannot be said. A peer that takes no part any more has rank -1 and size 0. */
KUNGFU_EXPORT int kungfu_rank(void);
KUNGFU_EXPORT int kungfu_size(void);
KUNGFU_EXPORT int kungfu_local_rank(void);
KUNGFU_EXPORT int kungfu_local_size(void);
KUNGFU_EXPORT int kungfu_host_count(void);
/* The number of the list of peers: each change of the list makes it one higher. */
KUNGFU_EXPORT int kungfu_membership_version(void);
/* The same after kungfu_advance on all peers, and as long as nothing has changed since the last one. Survivors of a
 * lost peer have a newer list at once, and each at another point of its work; they agree on it in the next
 * kungfu_advance. */
KUNGFU_EXPORT int kungfu_agreed_version(void);
/* How many peers that list has. */
KUNGFU_EXPORT int kungfu_agreed_size(void);
/* 1 if peers may come and go, else 0. */
KUNGFU_EXPORT int kungfu_elastic(void);
/* 1 if this is a newcomer that was not taken in yet, else 0. */
KUNGFU_EXPORT int kungfu_joining(void);
/* 1 if this peer has been told of a newer membership than that which it is in, else 0. */
KUNGFU_EXPORT int kungfu_outdated(void);
/* 1 if operations may be repeated after a peer was lost: one that works in place costs a copy then; else 0. It does not
 * change while the peer lives. */
KUNGFU_EXPORT int kungfu_repeats(void);
/* The number of the epoch that runs now; -1 if there is no peer. */
KUNGFU_EXPORT int64_t kungfu_epoch(void);
/* 1 if this epoch was interrupted, here or elsewhere; else 0. */
KUNGFU_EXPORT int kungfu_interrupted(void);
/* "127.0.0.1:10000" of a rank; empty if there is none. Valid as long as the session. */
KUNGFU_EXPORT const char* kungfu_peer_name(int rank);

/* -- Collectives -------------------------------------------------------------------------------------------- */

/* Values of kungfu::DType and kungfu::ReduceOp (ops/base/dtype.h). */
typedef enum {
  KUNGFU_UINT8 = 0,
  KUNGFU_UINT16 = 1,
  KUNGFU_UINT32 = 2,
  KUNGFU_UINT64 = 3,
  KUNGFU_INT8 = 4,
  KUNGFU_INT16 = 5,
  KUNGFU_INT32 = 6,
  KUNGFU_INT64 = 7,
  KUNGFU_FLOAT16 = 8,
  KUNGFU_BFLOAT16 = 9,
  KUNGFU_FLOAT32 = 10,
  KUNGFU_FLOAT64 = 11,
  KUNGFU_COMPLEX64 = 12,
  KUNGFU_COMPLEX128 = 13,
  KUNGFU_BOOL = 14
} kungfu_dtype;

typedef enum { KUNGFU_SUM = 0, KUNGFU_MEAN = 1, KUNGFU_MIN = 2, KUNGFU_MAX = 3, KUNGFU_PROD = 4 } kungfu_reduce_op;

/* One tensor of an operation, in elements, aligned to their size. `recv` may be `send` (in place); it must not overlap
 * otherwise. */
typedef struct {
  const void* send;
  void* recv;
  uint64_t count;
} kungfu_span;

/* The measurements of an all_reduce of a floating or complex dtype, of all spans together. */
typedef struct {
  int32_t wanted;  /* in: 0 if this peer does not want it; where any peer does not, the norms are NaN */
  double sent;     /* out: the mean over the peers that are reduced of |send|² */
  double received; /* out: |recv|². Both are the same bits on all these peers */
} kungfu_norms;

typedef struct {
  const char* name;      /* the same on every peer; 1 to kungfu_longest_name() bytes; not "kungfu/..." */
  int32_t dtype;         /* kungfu_dtype */
  int32_t op;            /* kungfu_reduce_op; ignored by kinds that do not reduce */
  int32_t root;          /* ignored by kinds that have none */
  uint64_t shape_digest; /* kungfu_digest of what else must agree, or 0; its two highest bits do not count */
  uint64_t step;         /* the optimizer's step, or 0 */
  double timeout;        /* seconds; 0: KUNGFU_COLLECTIVE_TIMEOUT */
  /* all_reduce: the parent of each rank, which is its own at a root. Each tree reduces alone. NULL: all together. */
  const int32_t* parents;
  int32_t num_parents; /* must be the session's size */
  /* all_reduce: what is to be measured, on all peers or on none (NULL). Must stay until `done`. */
  kungfu_norms* norms;
  /* The operations of one exchange end together: with success when all of them have, or all with the first error. They
   * have its name in common, and exchange_size says how many there are. 0 or 1: the operation ends alone. */
  const char* exchange;
  int32_t exchange_size;
  uint64_t group; /* of kungfu_add_group: the peers that do it, and whose ranks count; 0: all. It ends alone, then */
} kungfu_options;

KUNGFU_EXPORT size_t kungfu_longest_name(void);

/* Called exactly once, from a thread of the core, or one that works for it (kungfu_help, kungfu_wait). In a process of
 * one, and perhaps within kungfu_help and kungfu_wait, the calling thread calls it before the call returns. Must not
 * block. `message` is valid during the call. */
typedef void (*kungfu_done)(void* arg, int code, const char* message);

/* Returns the memory for a result whose size the call could not know, or NULL (the operation fails). `counts[r]`:
 * elements that come from rank r (all_gather, gather, all_to_all), or from source r (neighbor_all_gather). For
 * reduce_scatter `size` is 1, and counts[0] is what this peer keeps. Together they are the size of the result. Called
 * at most once, before `done`, from the same threads. */
typedef void* (*kungfu_allocate)(void* arg, const uint64_t* counts, int size);

/* Makes a group of peers, and sets *group. All peers call it, in the same order, with the same ranks; the group's own
 * ranks are in their order. It ends with the list of peers. INVALID_ARGUMENT: the ranks differ between peers, repeat,
 * or are no ranks. */
KUNGFU_EXPORT void kungfu_add_group(const int32_t* ranks, int num_ranks, uint64_t* group, kungfu_done done, void* arg);
/* Ends a group here: pending operations fail with CANCELLED. */
KUNGFU_EXPORT void kungfu_remove_group(uint64_t group);
/* This peer's rank in a group, and the group's size; 0 is the group of all. -1 and kungfu_last_error() if this peer is
 * no member, or there is no such group any more. */
KUNGFU_EXPORT int kungfu_group_rank(uint64_t group);
KUNGFU_EXPORT int kungfu_group_size(uint64_t group);

/* Every call returns an identifier for kungfu_cancel. Buffers must stay until `done`.
 * Errors of arguments (dtype, op, name, root) arrive through `done`, too. */

/* recv = op over all peers of send, for each span. */
KUNGFU_EXPORT uint64_t kungfu_all_reduce(const kungfu_span* spans, int num_spans, const kungfu_options* options,
                                         kungfu_done done, void* arg);
/* recv = send of options->root; elsewhere send is not read. */
KUNGFU_EXPORT uint64_t kungfu_broadcast(const kungfu_span* spans, int num_spans, const kungfu_options* options,
                                        kungfu_done done, void* arg);
/* On options->root recv = op over all peers of send; elsewhere recv is scratch space that must be there. */
KUNGFU_EXPORT uint64_t kungfu_reduce(const kungfu_span* spans, int num_spans, const kungfu_options* options,
                                     kungfu_done done, void* arg);
/* The peers' arrays one behind the other, in rank order; counts may differ. gather: only root has a result, only
 * there `allocate` is called. */
KUNGFU_EXPORT uint64_t kungfu_all_gather(const void* send, uint64_t count, const kungfu_options* options,
                                         kungfu_allocate allocate, kungfu_done done, void* arg);
KUNGFU_EXPORT uint64_t kungfu_gather(const void* send, uint64_t count, const kungfu_options* options,
                                     kungfu_allocate allocate, kungfu_done done, void* arg);
/* `send` is count / row elements long rows, cut into even parts as numpy.array_split does; rank r receives part r of
 * the reduction. `count` must be a multiple of `row`; row > 0. `send` is not changed. */
KUNGFU_EXPORT uint64_t kungfu_reduce_scatter(const void* send, uint64_t count, uint64_t row,
                                             const kungfu_options* options, kungfu_allocate allocate, kungfu_done done,
                                             void* arg);
/* send_counts[r] elements go to rank r, in rank order; num_counts must be the session's size. With send_counts NULL
 * the count / row rows are cut evenly, as in reduce_scatter. The received data lie in rank order of the senders. */
KUNGFU_EXPORT uint64_t kungfu_all_to_all(const void* send, uint64_t count, uint64_t row, const uint64_t* send_counts,
                                         int num_counts, const kungfu_options* options, kungfu_allocate allocate,
                                         kungfu_done done, void* arg);
/* Done when all peers have called it. */
KUNGFU_EXPORT uint64_t kungfu_barrier(const kungfu_options* options, kungfu_done done, void* arg);
/* *equal = 1 if the bytes are the same on all peers, else 0; also if lengths differ. */
KUNGFU_EXPORT uint64_t kungfu_consensus(const void* send, uint64_t count, int* equal, const kungfu_options* options,
                                        kungfu_done done, void* arg);

/* This peer's part in an operation of neighbours. Ranks are other peers', in any order, each at most once. */
typedef struct {
  double self_weight;
  const int32_t* sources; /* the ranks that it takes from */
  const double* source_weights;
  int32_t num_sources;
  const int32_t* targets; /* the ranks that take from it: each has it as a source */
  const double* target_weights;
  int32_t num_targets;
} kungfu_mixing;

/* recv = self_weight * send + the sum over the sources, in the order of their ranks, of source weight * what that peer
 * sends. A peer sends target weight * send. For floating and complex dtypes; recv is not send.
 * FAILED_PRECONDITION: kungfu_repeats() is 1. */
KUNGFU_EXPORT uint64_t kungfu_neighbor_all_reduce(const kungfu_span* spans, int num_spans, const kungfu_mixing* mixing,
                                                  const kungfu_options* options, kungfu_done done, void* arg);
/* The arrays of the sources one behind the other, in rank order; counts may differ. Weights are not looked at. */
KUNGFU_EXPORT uint64_t kungfu_neighbor_all_gather(const void* send, uint64_t count, const kungfu_mixing* mixing,
                                                  const kungfu_options* options, kungfu_allocate allocate,
                                                  kungfu_done done, void* arg);

/* -- The store: what one peer keeps and others ask for ------------------------------------------------------- */

typedef struct {
  const char* name;      /* 1 to kungfu_longest_name() bytes */
  int64_t version;       /* -1: saved as the next one, from 0; asked for, the newest. They ascend */
  int32_t dtype;         /* kungfu_dtype */
  uint64_t shape_digest; /* kungfu_digest of the shapes: must agree between the peers that save and ask */
  const char* shapes;    /* the same for messages, "[3, 4]"; or NULL */
} kungfu_blob;

/* Keeps a copy of `send` of the spans, as one blob, and the `keep` newest versions of that name (0:
 * KUNGFU_STORE_VERSIONS). *version is the version that it was saved as. Returns a status code; never waits. */
KUNGFU_EXPORT int kungfu_save(const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int keep,
                              int64_t* version);
/* Keeps nothing any more under names that begin with `prefix`, also of queues: their versions begin anew. Returns a
 * status code. */
KUNGFU_EXPORT int kungfu_forget(const char* prefix);
/* Fills `recv` of the spans with a blob that rank `target` keeps, and *version with its version. If `wait` is not 0 the
 * call waits for a missing blob; else the blob is NOT_FOUND, as it is when that peer has ended in order. OUT_OF_RANGE:
 * the version has left the window, or was left out. INVALID_ARGUMENT: it is of another dtype or other shapes there.
 * `timeout`: seconds, 0: KUNGFU_COLLECTIVE_TIMEOUT. No other peer takes part: a failure here is an error here only. A
 * new epoch changes nothing. If one was interrupted, pending requests fail, and so do those that start before the next
 * epoch. */
KUNGFU_EXPORT uint64_t kungfu_request(int target, const kungfu_span* spans, int num_spans, const kungfu_blob* blob,
                                      int wait, double timeout, int64_t* version, kungfu_done done, void* arg);
/* Queues: each blob is taken once, in order, by the first peer that asks. blob->version is not looked at. `put` copies
 * before it returns, and is done when fewer than `capacity` blobs are before it; `get` waits for one. Queues belong to
 * an epoch, as ranks do: the next epoch begins with empty ones, and pending calls fail with CANCELLED. */
KUNGFU_EXPORT uint64_t kungfu_put(const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int capacity,
                                  double timeout, kungfu_done done, void* arg);
KUNGFU_EXPORT uint64_t kungfu_get(int source, const kungfu_span* spans, int num_spans, const kungfu_blob* blob,
                                  double timeout, kungfu_done done, void* arg);

/* Outboxes: queues of one blob at most. What is posted is added to what is there, with its weight; if it `replaces`, it
 * stays alone. `post` copies, and never waits; it returns a status code. `collect` takes what rank `source` has posted
 * into that outbox since the last time, and does not wait for more: if that is nothing, `recv` stays as it is.
 * `epoch` is that in which both have begun with empty outboxes: in a later one both fail with CANCELLED. UNAVAILABLE:
 * that peer is gone, also if it has ended in order. */
typedef struct {
  int64_t count;    /* how many were posted */
  double weight;    /* the sum of theirs, from the last one on that replaces */
  int32_t replaces; /* 1 if one of them does, else 0 */
} kungfu_collected;

KUNGFU_EXPORT int kungfu_post(const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int64_t epoch,
                              double weight, int replaces);
KUNGFU_EXPORT uint64_t kungfu_collect(int source, const kungfu_span* spans, int num_spans, const kungfu_blob* blob,
                                      int64_t epoch, kungfu_collected* collected, kungfu_done done, void* arg);

/* This peer has no more work. Until all peers have called it, it takes part in the all_reduces of the others with
 * what changes nothing, as zeros of a sum; their other operations fail with FAILED_PRECONDITION, and name this peer.
 * *before is how many had called it before, as far as this peer knew. `done`: all have called it. The deadline counts
 * from the last operation that others began. FAILED_PRECONDITION: kungfu_repeats() is 1. */
KUNGFU_EXPORT void kungfu_join(int* before, kungfu_done done, void* arg);

/* The program leaves its common work with the other peers in the middle. Their pending operations fail with `code` and
 * `message`, and so do later ones of this epoch; here they fail with CANCELLED. Blocks until the others are being told;
 * not from `done`. */
KUNGFU_EXPORT void kungfu_interrupt(int code, const char* message);

/* The name of strategy `number`, from 0, which is AUTO; NULL: there are no more. Valid for ever. */
KUNGFU_EXPORT const char* kungfu_strategy_name(int number);
/* The same peers begin a new epoch, when all have called it; out of an interrupted epoch each goes separately.
 * Operations are numbered from 0 again, so that all are in step after any errors. `strategy`: its name, or NULL for the
 * one in use. Pending operations fail with CANCELLED. */
KUNGFU_EXPORT void kungfu_begin_epoch(const char* strategy, kungfu_done done, void* arg);
/* The same with one tree, given by the parent of each rank, as strategy. */
KUNGFU_EXPORT void kungfu_set_tree(const int32_t* parents, int num_parents, kungfu_done done, void* arg);

/* Asks the runner for another number of peers. done: OK if it takes that up; FAILED_PRECONDITION and why, if not. */
KUNGFU_EXPORT void kungfu_propose_size(int size, kungfu_done done, void* arg);
/* The same by all peers, repeatedly: rank 0 asks, if the number is not today's or takes back an earlier one. done: OK,
 * too, if the runner need not be asked. */
KUNGFU_EXPORT void kungfu_want_size(int size, kungfu_done done, void* arg);
/* As kungfu_propose_size with the number of workers that the runner's config server says. */
KUNGFU_EXPORT void kungfu_propose_from_url(kungfu_done done, void* arg);
/* This peer was asked to end, by SIGTERM. done: OK if it may leave, and the others go on; else FAILED_PRECONDITION: the
 * job ends. */
KUNGFU_EXPORT void kungfu_give_notice(kungfu_done done, void* arg);
/* Leaves, between two steps. done: OK when this peer takes no part any more; else FAILED_PRECONDITION, as above. */
KUNGFU_EXPORT void kungfu_leave(kungfu_done done, void* arg);
/* Goes over to the newest membership that any peer has been told of; all call it at the same point of their work. A
 * newcomer, a peer of one until then, asks to be taken in, and waits. OK: all have gone over. A peer that takes no part
 * any more gets ABORTED from all later collectives. Pending operations of a membership that ends fail with CANCELLED.
 */
KUNGFU_EXPORT void kungfu_advance(kungfu_done done, void* arg);
/* The same; if some peer has operations pending all get FAILED_PRECONDITION instead, and nothing has changed. */
KUNGFU_EXPORT void kungfu_advance_if_idle(kungfu_done done, void* arg);

/* The operation, if still pending, fails here and, but for those of the store, on every peer: with `code` and
 * `message`, the cause, or if `code` is 0 with CANCELLED. Does not block. */
KUNGFU_EXPORT void kungfu_cancel(uint64_t operation, int code, const char* message);

/* -- Waiting ------------------------------------------------------------------------------------------------ */

/* A message costs less than waking the thread that waits for it. So a waiting thread should do the core's work
 * meanwhile.
 *
 * Calls start(arg, done, done_arg), which hands `done` and `done_arg` to one operation, and returns the operation's
 * code when it has ended, its text being kungfu_last_error(). Not from `done`. */
KUNGFU_EXPORT int kungfu_wait(void (*start)(void* arg, kungfu_done done, void* done_arg), void* arg);
/* For a thread that may wait for a moment, but must not block. Calls start(arg), which begins operations. Then it does
 * the core's work, for `seconds` at most, until until(arg) is not 0 or nothing has come for a while (KUNGFU_SPIN).
 * `until` is called on this thread. From `done`, while another thread does the core's work, or where peers share cores
 * it may return at once. A thread that has one core, and is not the main one, gets the policy SCHED_BATCH for
 * good. */
KUNGFU_EXPORT void kungfu_help(void (*start)(void* arg), int (*until)(void* arg), void* arg, double seconds);

/* A digest of `size` bytes, the same on every peer. */
KUNGFU_EXPORT uint64_t kungfu_digest(const void* data, size_t size);

/* -- Numbers of few bits ------------------------------------------------------------------------------------ */

/* How a vector of floats is cut into blocks, each of which becomes whole numbers and a scale: ops/base/quantize.h. */
typedef struct {
  uint64_t elements; /* of a block: from 1; even if they have 4 bits */
  int32_t bits;      /* of an element: 4 or 8 */
} kungfu_blocks;
/* The bytes of a block; 0 if there are no such blocks. */
KUNGFU_EXPORT uint64_t kungfu_block_bytes(const kungfu_blocks* blocks);
/* Writes the blocks of `size` floats, the last one filled up with zeros. Rounding is random and unbiased, and follows
 * from the seed. */
KUNGFU_EXPORT void kungfu_quantize(void* out, const float* in, uint64_t size, const kungfu_blocks* blocks,
                                   uint64_t seed);
/* Writes the mean over `parts`, from 1, each of `rows` blocks. */
KUNGFU_EXPORT void kungfu_dequantize(float* out, const void* in, uint64_t parts, uint64_t rows,
                                     const kungfu_blocks* blocks);

/* -- Shared memory ------------------------------------------------------------------------------------------ */

/* Memory that the host's other peers can reach: all_reduce works there without copies. At a page boundary; whole pages
 * are taken, so it is for large blocks. NULL: take other memory. The process is its host's only peer, or a forked
 * child; KUNGFU_ARENA_BYTES or KUNGFU_DIRECT says so; or the memory is full. Does not start the peer. */
KUNGFU_EXPORT void* kungfu_shared_allocate(size_t size);
/* The size of a block; 0: it is not from there. */
KUNGFU_EXPORT size_t kungfu_shared_size(const void* block);
/* The same, and the block is free if it is from there. */
KUNGFU_EXPORT size_t kungfu_shared_free(void* block);

/* -- Statistics --------------------------------------------------------------------------------------------- */

typedef struct {
  uint64_t operations; /* completed without error */
  uint64_t failures;   /* completed with an error */
  uint64_t bytes_sent; /* over all connections, headers included; kungfu_get_traffic has those in memory, too */
  uint64_t bytes_received;
  uint64_t refused_frames; /* of an old epoch, or of an operation that has failed */
  uint64_t connections;    /* open now, both directions */
  uint64_t direct;         /* all_reduces in memory of the host's peers, without copies */
  uint64_t shared_bytes;   /* of kungfu_shared_allocate, in use now, and what repeated operations keep */
  uint64_t pending;        /* operations that were called and are not over */
} kungfu_statistics;
KUNGFU_EXPORT void kungfu_get_statistics(kungfu_statistics* statistics);
/* Operations completed without error under `name`, e.g. to assert in a test that they ran. */
KUNGFU_EXPORT uint64_t kungfu_completed(const char* name);

/* -- Settings ----------------------------------------------------------------------------------------------- */

/* An environment variable that the core reads. */
typedef struct {
  const char* name;
  const char* meaning;
  const char* type;         /* the allowed values: "an integer from 0 to 3" */
  const char* unit;         /* of a number: "seconds"; or empty */
  const char* default_text; /* as it would be set; empty: there is none */
  int32_t internal;         /* 1: the launcher tells its peers, users do not set it; else 0 */
  int32_t secret;           /* 1: the value is never printed; else 0 */
} kungfu_setting;
/* Setting `number`, from 0; NULL: there are no more. Valid for ever. */
KUNGFU_EXPORT const kungfu_setting* kungfu_get_setting(int number);
/* Whether a setting can be `text`, which is not empty: 0, or an error that names the allowed values. */
KUNGFU_EXPORT int kungfu_check_setting(const char* name, const char* text);

#ifdef __cplusplus
}
#endif

#endif /* KUNGFU_C_API_KUNGFU_H_ */

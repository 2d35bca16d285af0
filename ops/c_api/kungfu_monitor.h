/* The second part of the C interface of the core: its measurements. kungfu.h says what holds for all functions. */

#ifndef KUNGFU_C_API_KUNGFU_MONITOR_H_
#define KUNGFU_C_API_KUNGFU_MONITOR_H_

#include "ops/c_api/kungfu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- Traffic ------------------------------------------------------------------------------------------------ */

/* In bytes since the peer started, and in bytes per second, over about the last second. */
typedef struct {
  uint64_t egress_bytes;
  uint64_t ingress_bytes;
  double egress_rate;
  double ingress_rate;
} kungfu_flow;

/* In memory that both peers map, or over a socket. */
enum { KUNGFU_SHARED_MEMORY = 0, KUNGFU_UNIX_SOCKET, KUNGFU_TCP, KUNGFU_NUM_WAYS };

/* The traffic to and from a rank. Messages count with their headers. An all_reduce in memory of the host's peers counts
 * when it has ended well: what a peer reads in another's memory comes from there, and what it writes there goes there.
 */
typedef struct {
  kungfu_flow total;
  kungfu_flow by_way[KUNGFU_NUM_WAYS];
} kungfu_traffic;
/* Fills up to `size` elements, by rank; returns the number of peers, or -1 as kungfu_size does. */
KUNGFU_EXPORT int kungfu_get_traffic(kungfu_traffic* traffic, int size);

/* Returns the memory for the latencies, one double for each of `size` ranks: the seconds for a message and its answer.
 * It is 0 for this peer itself, and infinity for a peer that has not answered within `timeout` seconds. `allocate` is
 * called once, before `done`; NULL: the call fails. Any peer may call it, alone. */
typedef double* (*kungfu_allocate_doubles)(void* arg, int size);
KUNGFU_EXPORT void kungfu_ping(double timeout, kungfu_allocate_doubles allocate, kungfu_done done, void* arg);

/* The sum of the squares of `count` elements of a floating or complex kungfu_dtype; NaN for any other. Bitwise the same
 * on all peers. */
KUNGFU_EXPORT double kungfu_squared_norm(const void* data, uint64_t count, int32_t dtype);

/* -- Operations --------------------------------------------------------------------------------------------- */

/* The times from the call to the end of all operations that were completed without error, and their bytes. */
#define KUNGFU_LATENCY_BUCKETS 28
typedef struct {
  double upper_bound[KUNGFU_LATENCY_BUCKETS]; /* in seconds; the last is infinity */
  uint64_t count[KUNGFU_LATENCY_BUCKETS];     /* operations that took no longer, and longer than the bucket before */
  double seconds;                             /* of all together */
  uint64_t bytes;                             /* that this peer gave to them */
} kungfu_latencies;
KUNGFU_EXPORT void kungfu_get_latencies(kungfu_latencies* latencies);

/* The traffic of operations whose names begin with KUNGFU_MONITORED, while the session's strategy was `strategy`. */
#define KUNGFU_MONITORED "monitored/"
typedef struct {
  const char* strategy;
  uint64_t bytes;
  double seconds; /* in which there was such an operation */
  double newest;  /* bytes per second of the newest window that had some */
  double best;    /* of all windows with these peers, and this tree */
} kungfu_throughput;
/* Fills up to `size` elements, one for each strategy that has moved something, and returns how many there are. */
KUNGFU_EXPORT int kungfu_get_throughputs(kungfu_throughput* throughputs, int size);
/* Ends a window, which began with the last call, and returns the throughput of the session's strategy in it. Without
 * traffic it returns the throughput of the newest window with traffic; 0 before the first. */
KUNGFU_EXPORT double kungfu_end_window(void);
/* The name of the session's strategy; AUTO as long as the peers have not agreed on one. Valid for ever. */
KUNGFU_EXPORT const char* kungfu_strategy(void);

/* Records when the operations of this peer begin and end, in a new file at `path`, which chrome://tracing opens: until
 * it is stopped, or started anew, or the peer ends. Return 0 or a code: FAILED_PRECONDITION if there is nothing to
 * stop, or what the system says of the file. */
KUNGFU_EXPORT int kungfu_start_timeline(const char* path);
KUNGFU_EXPORT int kungfu_stop_timeline(void);

#ifdef __cplusplus
}
#endif

#endif /* KUNGFU_C_API_KUNGFU_MONITOR_H_ */

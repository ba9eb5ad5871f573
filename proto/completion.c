/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and stops gRPC in a process, and decides on which thread handlers run: one initialisation,
 * one completion queue, one thread that drains it. Handlers run on that thread, because passing
 * events to another one costs 70 % more CPU for each call.
 */
#include <grpc/byte_buffer_reader.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "proto/rpc-queue.h"
#include "proto/rpc.h"

/* Maximum CPU time of a handler; none takes this long. */
#define HELD_UP_MIN  USEC_PER_SEC
#define HELD_UP_PART (HELD_UP_MIN / 4)

static grpc_completion_queue *the_queue;
static grpc_server *ended_server; /* only rpc_queue_post() uses it */
static pthread_t the_thread;
static atomic_uint delivered;

grpc_completion_queue *rpc_queue(void)
{
	return the_queue;
}

/* The core has no call that only posts, but a server that has ended returns the tag of each further
 * shutdown at once. */
void rpc_queue_post(struct tag *tag)
{
	grpc_server_shutdown_and_notify(ended_server, the_queue, tag);
}

static void on_nothing(struct tag *tag, bool ok)
{
}

static void queue_open(void)
{
	static struct tag first = { .on_event = on_nothing };

	the_queue = grpc_completion_queue_create_for_next(NULL);
	ended_server = grpc_server_create(NULL, NULL);
	grpc_server_register_completion_queue(ended_server, the_queue, NULL);
	rpc_queue_post(&first);
}

/* The queue has returned every tag. */
static void queue_close(void)
{
	grpc_server_destroy(TAKE_PTR(ended_server));
	grpc_completion_queue_destroy(TAKE_PTR(the_queue));
}

static void *drain(void *arg)
{
	for (;;) {
		grpc_event event = grpc_completion_queue_next(
			the_queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);

		if (event.type == GRPC_QUEUE_SHUTDOWN)
			return NULL;
		if (event.type == GRPC_OP_COMPLETE) {
			struct tag *tag = event.tag;

			atomic_fetch_add_explicit(&delivered, 1, memory_order_relaxed);
			tag->on_event(tag, event.success != 0);
		}
	}
}

int rpc_start(void)
{
	static const int faults[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV };
	sigset_t all, before;
	int r;

	assert(!the_queue);

	/* Threads inherit the mask: signals belong to the main loop. A thread's own faults stay
	 * unblocked, because no handler runs for a blocked one. */
	(void)sigfillset(&all);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		(void)sigdelset(&all, faults[i]);
	r = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (r != 0)
		return -r;
	if (setenv("GRPC_VERBOSITY", "ERROR", 0) < 0) {
		r = -errno;
		goto restore_mask;
	}
	grpc_init();
	queue_open();
	r = -pthread_create(&the_thread, NULL, drain, NULL);
	if (r < 0) {
		grpc_completion_queue_shutdown(the_queue);
		(void)drain(NULL);
		queue_close();
		grpc_shutdown_blocking();
	}
restore_mask:
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static bool queue_is_held_up(uint64_t spent)
{
	static uint64_t spent_before;
	static unsigned delivered_before;
	unsigned now = atomic_load_explicit(&delivered, memory_order_relaxed);
	bool held_up = now == delivered_before && spent >= spent_before + HELD_UP_MIN;

	if (held_up || now != delivered_before)
		spent_before = spent;
	delivered_before = now;
	return held_up;
}

/* If the main loop sends to a peer while gRPC reads from it, gRPC continues reading on a thread of
 * its own, and other threads wait for it. A well-behaved client never costs these threads so much
 * time, nor HELD_UP_PART of it between two calls of this function. On a busy host a peer gets only
 * its share of the processor, so its time is added up over several calls. */
static bool others_are_held_up(uint64_t spent)
{
	static uint64_t counted_from, spent_before;
	bool held_up = spent >= counted_from + HELD_UP_MIN;

	if (held_up || spent < spent_before + HELD_UP_PART)
		counted_from = spent;
	spent_before = spent;
	return held_up;
}

bool rpc_is_held_up(void)
{
	uint64_t caller, queue, others;
	clockid_t clock;
	bool queue_held_up;

	if (!the_queue || pthread_getcpuclockid(the_thread, &clock) != 0)
		return false;
	/* The process's time is read last, so that it is not less than the times of the threads. */
	caller = now_usec(CLOCK_THREAD_CPUTIME_ID);
	queue = now_usec(clock);
	others = now_usec(CLOCK_PROCESS_CPUTIME_ID) - caller - queue;
	queue_held_up = queue_is_held_up(queue);
	return others_are_held_up(others) || queue_held_up;
}

void rpc_stop(void)
{
	if (!the_queue)
		return;
	grpc_completion_queue_shutdown(the_queue);
	(void)pthread_join(the_thread, NULL);
	queue_close();
}

int rpc_read_message(grpc_byte_buffer *buffer, grpc_slice *ret)
{
	grpc_byte_buffer_reader reader;

	/* A call without a complete request arrives as success with no buffer; an empty message is
	 * a buffer of length 0. */
	if (!buffer || buffer->data.raw.compression != GRPC_COMPRESS_NONE)
		return -EBADMSG;
	if (!grpc_byte_buffer_reader_init(&reader, buffer))
		return -EBADMSG;
	*ret = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	return 0;
}

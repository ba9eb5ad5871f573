/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of gRPC in a process: one initialisation, one completion queue, one thread that drains
 * it. Handlers run on that thread; handing events to another one costs 70 % more CPU for each call.
 */
#include <grpc/byte_buffer_reader.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "proto/rpc-queue.h"
#include "proto/rpc.h"

/* How late gRPC's timers may be. Its timer threads otherwise wake two to four times a second for
 * nothing (grpc#19947); they inherit the slack of the thread that starts them. */
#define LAZY_TIMER_SLACK_NSEC 30000000000UL

static grpc_completion_queue *the_queue;
static pthread_t the_thread;

grpc_completion_queue *rpc_queue(void)
{
	return the_queue;
}

static void *drain(void *arg)
{
	(void)prctl(PR_SET_TIMERSLACK, 0);
	for (;;) {
		grpc_event event = grpc_completion_queue_next(
			the_queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);

		if (event.type == GRPC_QUEUE_SHUTDOWN)
			return NULL;
		if (event.type == GRPC_OP_COMPLETE) {
			struct tag *tag = event.tag;

			tag->on_event(tag, event.success != 0);
		}
	}
}

int rpc_start(bool lazy_timers)
{
	sigset_t all, before;
	int r;

	assert(!the_queue);

	/* Threads inherit the mask: signals belong to the main loop. */
	(void)sigfillset(&all);
	r = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (r != 0)
		return -r;
	if (setenv("GRPC_VERBOSITY", "ERROR", 0) < 0) {
		r = -errno;
		goto restore_mask;
	}
	if (lazy_timers)
		(void)prctl(PR_SET_TIMERSLACK, LAZY_TIMER_SLACK_NSEC);
	grpc_init();
	the_queue = grpc_completion_queue_create_for_next(NULL);
	r = -pthread_create(&the_thread, NULL, drain, NULL);
	if (r < 0) {
		grpc_completion_queue_shutdown(the_queue);
		grpc_completion_queue_destroy(the_queue);
		the_queue = NULL;
		grpc_shutdown_blocking();
	}
	/* The slack stays until the server's threads exist; rpc_server_new() is called with it. */
restore_mask:
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

void rpc_stop(void)
{
	if (!the_queue)
		return;
	grpc_completion_queue_shutdown(the_queue);
	(void)pthread_join(the_thread, NULL);
	grpc_completion_queue_destroy(the_queue);
	the_queue = NULL;
}

void rpc_shutdown(void)
{
	grpc_shutdown_blocking();
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

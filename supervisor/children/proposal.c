/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the files that a child proposes are read and written, and when the child gets its
 * answer. Files change at most once in WRITE_INTERVAL. Reading takes time that grows with the
 * size, so after each proposal the loop is free for other work for a multiple of that time. A
 * proposal that is replaced meanwhile is never answered, and its child no longer waits for it.
 */
#include "supervisor/children/proposal.h"

#include "common/foreign.h"
#include "common/log.h"
#include "common/pace.h"
#include "supervisor/children/resource.h"
#include "supervisor/files/published-files.h"

#define ANSWER_RETRY (100 * USEC_PER_MSEC)
/* Each change of a CDI file makes the container runtime read all CDI files again. */
#define WRITE_INTERVAL (100 * USEC_PER_MSEC)

struct proposal {
	struct published *published;
	const char *resource;
	const struct resource *judge; /* whose applied configuration the files must fit */
	proposal_answer_t answer;
	void *userdata;

	int fd;          /* the newest, or -EBADF */
	uint64_t number; /* of it */
	char *failure;   /* of the newest; NULL: none */
	struct log_once logged;
	struct log_budget log_budget;
	struct pace pace;
	sd_event_source *timer;
};

static void come_again(struct proposal *proposal, uint64_t at)
{
	(void)sd_event_source_set_time(proposal->timer, at);
	(void)sd_event_source_set_enabled(proposal->timer, SD_EVENT_ONESHOT);
}

/* Logs the same only once, and within the budget. What status shows depends on neither. */
static void note(struct proposal *proposal, const struct error *error)
{
	const struct log_fields fields = { .resource = proposal->resource };
	_cleanup_free_ char *before = TAKE_PTR(proposal->failure);

	proposal->failure = error ? strdup(error->message) : NULL;
	if (error ? !log_once_admits_within(
			    &proposal->logged, &proposal->log_budget, &fields, error->message)
		  : !before || !log_budget_admits(&proposal->log_budget, &fields))
		return;
	if (error)
		log_full(LOG_ERR, &fields,
			"cannot publish the files for the devices: %s; until then containers get "
			"device nodes instead of CDI names",
			error->message);
	else
		log_full(LOG_NOTICE, &fields, "files for the devices are published again");
}

static void publish(struct proposal *proposal)
{
	struct error error = { 0 };
	uint64_t end;
	int r;

	pace_begin(&proposal->pace);
	r = published_take(proposal->published, &resource_applied(proposal->judge)->declaration,
		proposal->fd, &error);
	note(proposal, r < 0 ? &error : NULL);
	end = pace_end_of_writing(&proposal->pace, WRITE_INTERVAL);
	if (proposal->answer(proposal->number, r < 0 ? error.message : "", proposal->userdata) ==
		-EAGAIN)
		come_again(proposal, MAX_OF(proposal->pace.not_before, end + ANSWER_RETRY));
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	publish(userdata);
	return 0;
}

int proposal_new(sd_event *event, struct published *published, const struct resource *resource,
	proposal_answer_t answer, void *userdata, struct proposal **ret)
{
	_cleanup_(proposal_freep) struct proposal *proposal = malloc(sizeof(*proposal));
	int r;

	if (!proposal)
		return -ENOMEM;
	*proposal = (struct proposal){
		.published = published,
		.resource = resource->name,
		.judge = resource,
		.answer = answer,
		.userdata = userdata,
		.fd = -EBADF,
	};
	r = sd_event_add_time(event, &proposal->timer, CLOCK_MONOTONIC, USEC_INFINITY,
		USEC_PER_MSEC, on_due, proposal);
	if (r >= 0)
		r = sd_event_source_set_enabled(proposal->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(proposal);
	return 0;
}

void proposal_submit(struct proposal *proposal, int fd, uint64_t number)
{
	(void)foreign_close(proposal->fd);
	proposal->fd = fd;
	proposal->number = number;
	if (now_usec(CLOCK_MONOTONIC) >= proposal->pace.not_before)
		publish(proposal);
	else
		come_again(proposal, proposal->pace.not_before);
}

void proposal_publish_again(struct proposal *proposal)
{
	if (proposal->fd >= 0)
		publish(proposal);
}

void proposal_drop_pending(struct proposal *proposal)
{
	int enabled = SD_EVENT_OFF;

	(void)sd_event_source_get_enabled(proposal->timer, &enabled);
	if (enabled == SD_EVENT_OFF)
		return;
	proposal->fd = foreign_close(proposal->fd);
	(void)sd_event_source_set_enabled(proposal->timer, SD_EVENT_OFF);
}

const char *proposal_failure(const struct proposal *proposal)
{
	return proposal ? proposal->failure : NULL;
}

void proposal_end_process(struct proposal *proposal)
{
	proposal->fd = foreign_close(proposal->fd);
	(void)sd_event_source_set_enabled(proposal->timer, SD_EVENT_OFF);
	free(proposal->failure);
	proposal->failure = NULL;
}

struct proposal *proposal_free(struct proposal *proposal)
{
	if (!proposal)
		return NULL;
	sd_event_source_disable_unref(proposal->timer);
	(void)close_fd(proposal->fd);
	free(proposal->failure);
	free(proposal);
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a proposal takes time that grows with it, so after each the loop belongs to others for
 * some multiple of that. A proposal that is replaced meanwhile is never answered, and its child
 * does not wait for that any more.
 */
#include "child-publish.h"

#include "common/log.h"
#include "manager.h"

#define COST_FACTOR  4
#define ANSWER_RETRY (100 * USEC_PER_MSEC)

static int on_due(sd_event_source *source, uint64_t usec, void *userdata);

static void come_again(struct child *child, uint64_t at)
{
	struct child_publication *publication = &child->publication;

	if (!publication->timer)
		(void)sd_event_add_time(child->manager->event, &publication->timer, CLOCK_MONOTONIC,
			at, USEC_PER_MSEC, on_due, child);
	else if (sd_event_source_set_time(publication->timer, at) >= 0)
		(void)sd_event_source_set_enabled(publication->timer, SD_EVENT_ONESHOT);
}

/* Says the same only once. */
static void note(struct child *child, const struct error *error)
{
	struct child_publication *publication = &child->publication;
	const struct log_fields fields = { .resource = child->resource->name };

	if (error && publication->failure && streq(error->message, publication->failure))
		return;
	if (error)
		log_full(LOG_ERR, &fields,
			"files for the devices cannot be published: %s; until they are, containers are "
			"given device nodes instead of CDI names",
			error->message);
	else if (publication->failure)
		log_full(LOG_NOTICE, &fields, "files for the devices are published again");
	free(publication->failure);
	publication->failure = error ? strdup(error->message) : NULL;
}

static void publish(struct child *child)
{
	struct control_message answer = CONTROL_MESSAGE_INIT(CONTROL_PUBLISHED);
	struct child_publication *publication = &child->publication;
	uint64_t begin = now_usec(CLOCK_MONOTONIC), end;
	struct error error = { 0 };
	int r;

	/* Of a resource that is about to go, there are no files any more. */
	r = child->leaving ? 0
			   : published_take(child->manager->published, child->resource->name,
				     publication->fd, &error);
	note(child, r < 0 ? &error : NULL);
	answer.session = publication->number;
	if (r < 0)
		(void)snprintf(answer.text, sizeof(answer.text), "%s", error.message);
	end = now_usec(CLOCK_MONOTONIC);
	publication->next = end + COST_FACTOR * (end - begin);
	if (control_send(child->control_fd, &answer) == -EAGAIN)
		come_again(child, MAX_OF(publication->next, end + ANSWER_RETRY));
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	publish(userdata);
	return 0;
}

void child_publish(struct child *child, struct control_message *message)
{
	struct child_publication *publication = &child->publication;

	(void)close_fd(publication->fd);
	publication->fd = TAKE_FD(message->fds[0]);
	publication->number = message->session;
	if (now_usec(CLOCK_MONOTONIC) >= publication->next)
		publish(child);
	else
		come_again(child, publication->next);
}

void child_publish_again(struct child *child)
{
	if (child->publication.fd >= 0)
		publish(child);
}

void child_publish_forget(struct child *child)
{
	struct child_publication *publication = &child->publication;

	publication->fd = close_fd(publication->fd);
	publication->timer = sd_event_source_disable_unref(publication->timer);
	free(publication->failure);
	publication->failure = NULL;
}

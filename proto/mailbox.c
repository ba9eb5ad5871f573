/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes work from gRPC's thread to the main loop: a queue with an eventfd. The eventfd is written
 * only when the queue was empty, so a burst of messages wakes the main loop once.
 */
#include "proto/mailbox.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct mailbox {
	pthread_mutex_t lock;
	struct mailbox_message *first, **last;
	bool closed;
	int bell;
	void *userdata;
	sd_event_source *source;
};

static struct mailbox_message *take_all(struct mailbox *mailbox)
{
	struct mailbox_message *list;

	(void)pthread_mutex_lock(&mailbox->lock);
	list = TAKE_PTR(mailbox->first);
	mailbox->last = &mailbox->first;
	(void)pthread_mutex_unlock(&mailbox->lock);
	return list;
}

static void deliver_all(struct mailbox_message *list, void *userdata)
{
	while (list) {
		struct mailbox_message *posted = list;

		list = posted->next;
		posted->deliver(posted, userdata);
	}
}

static int on_bell(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct mailbox *mailbox = userdata;
	eventfd_t rings;

	(void)eventfd_read(fd, &rings);
	deliver_all(take_all(mailbox), mailbox->userdata);
	return 0;
}

int mailbox_new(sd_event *event, void *userdata, struct mailbox **ret)
{
	_cleanup_(mailbox_freep) struct mailbox *mailbox = NULL;
	int r;

	mailbox = calloc(1, sizeof(*mailbox));
	if (!mailbox)
		return -ENOMEM;
	(void)pthread_mutex_init(&mailbox->lock, NULL);
	mailbox->last = &mailbox->first;
	mailbox->userdata = userdata;
	mailbox->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (mailbox->bell < 0)
		return -errno;
	r = sd_event_add_io(event, &mailbox->source, mailbox->bell, EPOLLIN, on_bell, mailbox);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(mailbox);
	return 0;
}

void mailbox_post(struct mailbox *mailbox, struct mailbox_message *posted)
{
	bool was_empty, closed;

	posted->next = NULL;
	(void)pthread_mutex_lock(&mailbox->lock);
	was_empty = !mailbox->first;
	closed = mailbox->closed;
	if (!closed) {
		*mailbox->last = posted;
		mailbox->last = &posted->next;
	}
	(void)pthread_mutex_unlock(&mailbox->lock);
	if (closed)
		posted->deliver(posted, NULL);
	else if (was_empty)
		(void)eventfd_write(mailbox->bell, 1);
}

void mailbox_close(struct mailbox *mailbox)
{
	(void)pthread_mutex_lock(&mailbox->lock);
	mailbox->closed = true;
	(void)pthread_mutex_unlock(&mailbox->lock);
	mailbox->source = sd_event_source_disable_unref(mailbox->source);
	deliver_all(take_all(mailbox), NULL);
}

struct mailbox *mailbox_free(struct mailbox *mailbox)
{
	if (!mailbox)
		return NULL;
	mailbox_close(mailbox);
	close_fd(mailbox->bell);
	(void)pthread_mutex_destroy(&mailbox->lock);
	free(mailbox);
	return NULL;
}

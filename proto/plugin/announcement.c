/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers the kubelet's plugin watcher, which asks which plugin serves a socket. The answer is
 * packed when it is set, so that GetInfo copies bytes under a lock and does nothing that could take
 * time.
 */
#include "proto/plugin/announcement.h"

#include <pthread.h>

#include "pluginregistration.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"

#define PLUGIN_TYPE "DevicePlugin"

struct announcement {
	struct mailbox *mailbox;
	announcement_handler on_verdict;
	void *userdata;

	pthread_mutex_t lock;
	uint8_t *info; /* NULL: none */
	size_t info_size;
};

struct verdict_letter {
	struct letter letter;
	struct announcement *announcement;
	uint64_t label;
	bool registered;
	char text[480];
};

int announcement_new(struct mailbox *mailbox, announcement_handler on_verdict, void *userdata,
	struct announcement **ret)
{
	struct announcement *announcement = calloc(1, sizeof(*announcement));

	if (!announcement)
		return -ENOMEM;
	announcement->mailbox = mailbox;
	announcement->on_verdict = on_verdict;
	announcement->userdata = userdata;
	(void)pthread_mutex_init(&announcement->lock, NULL);
	*ret = announcement;
	return 0;
}

struct announcement *announcement_free(struct announcement *announcement)
{
	if (!announcement)
		return NULL;
	(void)pthread_mutex_destroy(&announcement->lock);
	free(announcement->info);
	free(announcement);
	return NULL;
}

int announcement_set(struct announcement *announcement, const char *resource, const char *endpoint)
{
	static char *versions[] = { (char *)DEVICE_PLUGIN_VERSION };
	Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
	_cleanup_free_ uint8_t *data = NULL;
	uint8_t *old;
	size_t size = 0;
	int r;

	if (resource) {
		info.type = (char *)(uintptr_t)PLUGIN_TYPE;
		info.name = (char *)(uintptr_t)resource;
		info.endpoint = (char *)(uintptr_t)endpoint;
		info.supported_versions = versions;
		info.n_supported_versions = ARRAY_SIZE(versions);
		r = message_pack(&info.base, &data, &size);
		if (r < 0)
			return r;
	}
	(void)pthread_mutex_lock(&announcement->lock);
	old = announcement->info;
	announcement->info = TAKE_PTR(data);
	announcement->info_size = size;
	(void)pthread_mutex_unlock(&announcement->lock);
	free(old);
	return 0;
}

void announcement_get_info(struct announcement *announcement, struct rpc_call *call)
{
	bool known;

	(void)pthread_mutex_lock(&announcement->lock);
	known = announcement->info != NULL;
	if (known)
		rpc_reply(call, announcement->info, announcement->info_size);
	(void)pthread_mutex_unlock(&announcement->lock);
	if (!known)
		rpc_fail(call, RPC_FAILED_PRECONDITION,
			"this socket is not for the plugin watcher: the resource registers through kubelet.sock");
}

static void deliver_verdict(struct letter *base, void *userdata)
{
	struct verdict_letter *letter = (struct verdict_letter *)(void *)base;
	struct announcement *announcement = letter->announcement;

	if (userdata)
		announcement->on_verdict(
			letter->label, letter->registered, letter->text, announcement->userdata);
	free(letter);
}

void announcement_take_verdict(
	struct announcement *announcement, struct rpc_call *call, const uint8_t *data, size_t size)
{
	_cleanup_message_ struct message message =
		message_unpack(&pluginregistration__registration_status__descriptor, data, size);
	const Pluginregistration__RegistrationStatus *status = (const void *)message.base;
	struct verdict_letter *letter;

	if (!status) {
		rpc_fail(call, RPC_INVALID_ARGUMENT, "the request is not valid for this method");
		return;
	}
	letter = malloc(sizeof(*letter));
	/* The kubelet undoes a registration that it could not report, and tries again. */
	if (!letter) {
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	*letter = (struct verdict_letter){
		.letter.deliver = deliver_verdict,
		.announcement = announcement,
		.label = rpc_call_session(call),
		.registered = status->plugin_registered,
	};
	(void)snprintf(letter->text, sizeof(letter->text), "%s", status->error);
	/* RegistrationStatusResponse has no fields. */
	rpc_reply(call, (const uint8_t *)"", 0);
	mailbox_post(announcement->mailbox, &letter->letter);
}

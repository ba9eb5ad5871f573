/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers the kubelet's plugin watcher. The answer to GetInfo is packed when it is set, so that the
 * call copies bytes under a lock and does nothing that could take time. Connections are labelled
 * with the session; there is one for each, because a kubelet that connects again has given up the
 * last one.
 */
#include "proto/plugin/announcement.h"

#include <pthread.h>

#include "common/control-kubelet-client.h"
#include "pluginregistration.pb-c.h"
#include "proto/acceptor.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/rpc.h"

/* How long a connection is kept for the answer to the registration status. */
#define LINGER USEC_PER_SEC

struct announcer {
	sd_event *event;
	struct mailbox *mailbox;
	struct rpc_server *server;
	pthread_mutex_t lock; /* the list and its members */
	struct announcement *first;
};

struct announcement {
	struct announcement *next;
	struct announcer *announcer;
	uint64_t session;
	uint8_t *info; /* the answer to GetInfo */
	size_t info_size;
	const struct announcement_events *events; /* NULL: it only lingers */
	void *userdata;
	struct acceptor *acceptor;
	sd_event_source *timer; /* ANNOUNCEMENT_TIMEOUT, then LINGER */
	bool reported;
};

struct status_message {
	struct mailbox_message base;
	struct announcer *announcer;
	struct rpc_call *call;
	uint64_t session;
	bool registered;
	char text[480];
};

/* --- the calls; gRPC's thread --- */

/* With the lock held, or on the main thread. */
static struct announcement *find(const struct announcer *announcer, uint64_t session)
{
	for (struct announcement *a = announcer->first; a; a = a->next)
		if (a->session == session && a->events)
			return a;
	return NULL;
}

static void on_get_info(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct announcer *announcer = userdata;
	const struct announcement *announcement;

	(void)pthread_mutex_lock(&announcer->lock);
	announcement = find(announcer, rpc_call_session(call));
	if (announcement)
		rpc_reply(call, announcement->info, announcement->info_size);
	else
		rpc_fail(call, RPC_FAILED_PRECONDITION, "this socket is being removed");
	(void)pthread_mutex_unlock(&announcer->lock);
}

/* The kubelet gets its answer last: by then the supervisor has the result, even if this process is
 * killed now, and the socket accepts no more connections here. */
static void deliver_status(struct mailbox_message *base, void *userdata)
{
	struct status_message *posted = (struct status_message *)(void *)base;
	struct announcement *announcement =
		userdata ? find(posted->announcer, posted->session) : NULL;
	char why[600];

	(void)snprintf(why, sizeof(why), "the kubelet refused the registration: %s", posted->text);
	if (announcement) {
		announcement->reported = true;
		announcement->events->on_status(
			announcement, posted->registered ? NULL : why, announcement->userdata);
	}
	/* RegistrationStatusResponse has no fields. */
	rpc_reply(posted->call, (const uint8_t *)"", 0);
	free(posted);
}

static void on_notify(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	_cleanup_message_ struct message message =
		message_unpack(&pluginregistration__registration_status__descriptor, data, size);
	const Pluginregistration__RegistrationStatus *status = (const void *)message.base;
	struct announcer *announcer = userdata;
	struct status_message *posted;

	if (!status) {
		rpc_fail(call, RPC_INVALID_ARGUMENT, "the request is not valid for this method");
		return;
	}
	posted = malloc(sizeof(*posted));
	/* The kubelet undoes a registration that it could not report, and tries again. */
	if (!posted) {
		rpc_fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	*posted = (struct status_message){
		.base.deliver = deliver_status,
		.announcer = announcer,
		.call = call,
		.session = rpc_call_session(call),
		.registered = status->plugin_registered,
	};
	(void)snprintf(posted->text, sizeof(posted->text), "%s",
		*status->error ? status->error : "the kubelet gave no reason");
	mailbox_post(announcer->mailbox, &posted->base);
}

static const struct rpc_method methods[] = {
	{ .path = METHOD_GET_INFO, .on_call = on_get_info },
	{ .path = METHOD_NOTIFY_REGISTRATION_STATUS, .on_call = on_notify },
};

/* --- the socket --- */

static int on_connection(int number, const struct ucred *peer, void *userdata)
{
	struct announcement *announcement = userdata;
	struct rpc_server *server = announcement->announcer->server;
	_cleanup_close_ int fd = number;

	/* The first connection is never refused, because others may be ending at that moment. */
	if (rpc_server_evict(server, announcement->session) >= 0 && rpc_server_is_behind(server))
		return -EMFILE;
	return rpc_server_add_unknown(server, TAKE_FD(fd), announcement->session);
}

static void on_broken(void *userdata)
{
	struct announcement *announcement = userdata;

	announcement->events->on_unused(announcement, announcement->userdata);
}

static const struct acceptor_events acceptor_events = {
	.on_connection = on_connection,
	.on_broken = on_broken,
};

/* --- --- */

/* A kubelet uses the first version of a claim service that it knows. */
static const struct {
	const char *type;
	const char *versions[4];
} types[] = {
	{ CLIENT_DEVICE_PLUGIN, { DEVICE_PLUGIN_VERSION } },
	{ CLIENT_DRA_PLUGIN,
		{ "v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth",
			"v1alpha1.DRAResourceHealth" } },
};

static int pack_info(
	struct announcement *announcement, const struct announcement_parameters *parameters)
{
	Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		const char *const *versions = types[i].versions;

		if (!streq(parameters->type, types[i].type))
			continue;
		info.supported_versions = (char **)(uintptr_t)versions;
		while (info.n_supported_versions < ARRAY_SIZE(types[i].versions) &&
			versions[info.n_supported_versions])
			info.n_supported_versions++;
	}
	if (info.n_supported_versions == 0)
		return -EINVAL;
	info.type = (char *)(uintptr_t)parameters->type;
	info.name = (char *)(uintptr_t)parameters->name;
	info.endpoint = (char *)(uintptr_t)parameters->endpoint;
	return message_pack(&info.base, &announcement->info, &announcement->info_size);
}

static bool is_known(const struct announcer *announcer, uint64_t session)
{
	for (const struct announcement *a = announcer->first; a; a = a->next)
		if (a->session == session)
			return true;
	return false;
}

static void destroy(struct announcement *announcement)
{
	struct announcer *announcer = announcement->announcer;

	(void)pthread_mutex_lock(&announcer->lock);
	for (struct announcement **a = &announcer->first; *a; a = &(*a)->next)
		if (*a == announcement) {
			*a = announcement->next;
			break;
		}
	(void)pthread_mutex_unlock(&announcer->lock);
	/* The session may have been announced again meanwhile, and that one may linger, too. */
	if (!is_known(announcer, announcement->session))
		rpc_server_end_session(announcer->server, announcement->session);
	sd_event_source_disable_unref(announcement->timer);
	(void)acceptor_free(announcement->acceptor);
	free(announcement->info);
	free(announcement);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct announcement *announcement = userdata;

	if (announcement->events)
		announcement->events->on_unused(announcement, announcement->userdata);
	else
		destroy(announcement);
	return 0;
}

int announcement_new(struct announcer *announcer, int fd,
	const struct announcement_parameters *parameters, const struct announcement_events *events,
	void *userdata, struct announcement **ret)
{
	_cleanup_(announcement_freep) struct announcement *announcement = NULL;
	_cleanup_close_ int listener = fd;
	int r;

	announcement = calloc(1, sizeof(*announcement));
	if (!announcement)
		return -ENOMEM;
	announcement->announcer = announcer;
	announcement->session = parameters->session;
	announcement->events = events;
	announcement->userdata = userdata;
	r = pack_info(announcement, parameters);
	if (r >= 0)
		r = sd_event_add_time_relative(announcer->event, &announcement->timer,
			CLOCK_MONOTONIC, ANNOUNCEMENT_TIMEOUT, USEC_PER_SEC, on_timer,
			announcement);
	if (r >= 0)
		r = acceptor_new(announcer->event, TAKE_FD(listener), parameters->supervisor_uid,
			&acceptor_events, announcement, &announcement->acceptor);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&announcer->lock);
	announcement->next = announcer->first;
	announcer->first = announcement;
	(void)pthread_mutex_unlock(&announcer->lock);
	*ret = TAKE_PTR(announcement);
	return 0;
}

struct announcement *announcement_free(struct announcement *announcement)
{
	if (!announcement)
		return NULL;
	if (!announcement->reported) {
		destroy(announcement);
		return NULL;
	}
	(void)pthread_mutex_lock(&announcement->announcer->lock);
	announcement->events = NULL;
	(void)pthread_mutex_unlock(&announcement->announcer->lock);
	announcement->acceptor = acceptor_free(announcement->acceptor);
	(void)sd_event_source_set_time_relative(announcement->timer, LINGER);
	(void)sd_event_source_set_enabled(announcement->timer, SD_EVENT_ONESHOT);
	return NULL;
}

int announcer_new(sd_event *event, struct mailbox *mailbox, struct announcer **ret)
{
	struct announcer *announcer = calloc(1, sizeof(*announcer));
	int r;

	if (!announcer)
		return -ENOMEM;
	announcer->event = event;
	announcer->mailbox = mailbox;
	(void)pthread_mutex_init(&announcer->lock, NULL);
	r = rpc_server_new(event, methods, ARRAY_SIZE(methods), announcer, &announcer->server);
	if (r < 0) {
		free(announcer);
		return r;
	}
	*ret = announcer;
	return 0;
}

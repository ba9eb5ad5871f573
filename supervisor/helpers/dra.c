/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when devplugd-cluster runs, which is while a feature needs the API server
 * (dra_rights_features()), and which resources are served by DRA. Such a resource has
 * sessions like others, but without a socket: they begin when the kubelet has registered its driver
 * and end with devplugd-cluster, or when the resource gets another driver. The prepared claims are
 * stored here, so devplugd-cluster can be replaced at any time. It also runs without such a
 * resource while there are claims: without it, the kubelet could not unprepare them, and their pods
 * could not end; and for a while after a feature is switched off, to remove what it wrote.
 */
#include "supervisor/helpers/dra.h"

#include "common/json-read.h"
#include "common/log.h"
#include "common/message-id.h"
#include "common/sealed.h"
#include "dra/model/dra-rights.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/dra-claim.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/pod-assignments.h"
#include "supervisor/children/auxiliary.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/eviction/eviction.h"
#include "supervisor/helpers/cluster-holders.h"
#include "supervisor/helpers/cluster-labels.h"
#include "supervisor/helpers/cluster-report.h"
#include "supervisor/helpers/dra-attributes.h"
#include "supervisor/helpers/dra-credentials.h"
#include "supervisor/helpers/dra-drivers.h"
#include "supervisor/helpers/dra-ends.h"
#include "supervisor/helpers/dra-held.h"
#include "supervisor/helpers/dra-prepare.h"
#include "supervisor/helpers/dra-refresh.h"
#include "supervisor/helpers/unknown-claims.h"

#define PROGRAM "devplugd-cluster"

/* Between two documents of one child, and until the process has read earlier ones. */
#define DEVICES_INTERVAL (100 * USEC_PER_MSEC)
#define DEVICES_RETRY    (10 * USEC_PER_MSEC)

/* No call takes longer: its process answers earlier. */
#define EVENT_TIME_MAX (60 * USEC_PER_SEC)

struct dra {
	struct manager *manager;
	struct auxiliary *process;
	struct dra_claims *claims;
	char *settings; /* the settings that the process was sent; NULL: it is not wanted */
	struct dra_identity identity;
	char *registry_dir;
	struct dra_drivers drivers;
	unsigned features;     /* of the configuration, see dra-rights.h */
	uint64_t linger_until; /* the process is wanted; CLOCK_MONOTONIC */
	sd_event_source *resources_source, *linger_timer;

	struct dra_preparations *preparations;
	struct dra_ends *ends;
	struct dra_refreshes *refreshes;
	struct dra_attributes *attributes;
	struct unknown_claims *unknown;
	struct cluster_report *report;
	struct cluster_holders holders;
	struct cluster_labels labels;

	uint64_t held_sent;            /* see dra_held_send() */
	uint64_t api_failures;         /* requests since the daemon started */
	struct log_once logged;        /* files of credentials that are refused */
	struct log_once claims_logged; /* that claims cannot be unprepared */
	struct log_once report_logged; /* failures of reports since the last success */
	struct log_once labels_logged; /* the same of labels */
	struct log_budget log_budget;
};

static struct log_fields fields_of(const struct dra *dra)
{
	return (struct log_fields){ .child_pid = auxiliary_pid(dra->process) };
}

/* Whether the process may cause another log record. */
static bool may_log(struct dra *dra)
{
	const struct log_fields fields = fields_of(dra);

	return log_budget_admits(&dra->log_budget, &fields);
}

/* Whether this failure may be logged; each failure is logged once. NULL: there is none. */
static bool may_log_failure(struct dra *dra, struct log_once *logged, const char *failure)
{
	const struct log_fields fields = fields_of(dra);

	return log_once_admits_within(logged, &dra->log_budget, &fields, failure);
}

/* --- sessions of resources --- */

static void notify_later(struct dra *dra)
{
	(void)sd_event_source_set_enabled(dra->resources_source, SD_EVENT_ONESHOT);
}

int dra_open_session(
	struct dra *dra, const char *resource, struct session *ret, struct error *error)
{
	struct child *child = manager_find_child(dra->manager, resource);
	const struct dra_registrant *driver =
		child ? dra_drivers_find_of(&dra->drivers, child) : NULL;
	const char *failure = driver ? driver->failure : "";

	if (!driver || !driver->registered)
		return error_set(error, -ENOENT,
			"the kubelet has not registered the DRA driver%s%s",
			*failure ? ": " : " yet", failure);
	ret->number = ++dra->manager->last_session;
	child->dra_driver = driver->number;
	notify_later(dra);
	return 0;
}

void dra_end_session(struct dra *dra)
{
	notify_later(dra);
}

/* Whether its session is one of a driver that it no longer has. */
static bool has_other_driver(const struct dra *dra, const struct child *child)
{
	const struct dra_registrant *driver = dra_drivers_find_of(&dra->drivers, child);

	return driver && driver->number != child->dra_driver;
}

static int on_resources(sd_event_source *source, void *userdata)
{
	struct dra *dra = userdata;
	struct manager *manager = dra->manager;

	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		if (!session_has_no_socket(&child->session))
			continue;
		if (child->resource->state == RESOURCE_ENDING)
			resource_handle(child->resource, RESOURCE_SESSION_ENDED,
				"the configuration no longer serves the resource by DRA");
		else if (has_other_driver(dra, child)) {
			child->published = false;
			resource_handle(child->resource, RESOURCE_SESSION_ENDED,
				"the resource has another DRA driver now");
		} else if (child->resource->state == RESOURCE_REGISTERING) {
			resource_handle(child->resource, RESOURCE_REGISTERED, NULL);
			resource_handle(child->resource, RESOURCE_WATCHED, NULL);
		}
	}
	return 0;
}

static void on_registrant(const struct dra_registrant *driver, bool before, void *userdata)
{
	struct dra *dra = userdata;
	struct manager *manager = dra->manager;

	for (size_t i = 0; i < manager->n_children; i++)
		if (dra_drivers_find_of(&dra->drivers, manager->children[i]) == driver)
			manager->children[i]->published = false;
	manager_changed(manager);
	if (driver->registered == before)
		return;
	for (size_t i = 0; i < manager->n_children; i++) {
		struct child *child = manager->children[i];

		if (!driver->registered && session_has_no_socket(&child->session) &&
			child->dra_driver == driver->number)
			resource_handle(child->resource, RESOURCE_SESSION_ENDED, driver->failure);
		else if (driver->registered && dra_drivers_find_of(&dra->drivers, child) == driver)
			resource_handle(child->resource, RESOURCE_KUBELET, NULL);
	}
}

void dra_check_session(struct dra *dra)
{
	dra_drivers_check(&dra->drivers);
}

/* --- claims --- */

static enum cluster_again again_of(const struct error *error)
{
	switch (error->code) {
	case -EAGAIN:
	case -EBUSY:
		return CLUSTER_WHEN_FREE;
	case -EIO:
		return CLUSTER_A_FEW_TIMES;
	case -EINPROGRESS:
		return CLUSTER_GOES_ON;
	default:
		return CLUSTER_NEVER;
	}
}

/* `error` NULL: there is none. */
static void send_prepared(
	struct dra *dra, uint64_t number, const json_t *claim, const struct error *error)
{
	_cleanup_control_ struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_PREPARED);
	_cleanup_free_ char *text = NULL;

	message.number = number;
	message.again = error ? again_of(error) : CLUSTER_NEVER;
	(void)snprintf(message.text, sizeof(message.text), "%s", error ? error->message : "");
	if (claim) {
		text = json_dumps(json_object_get(claim, "devices"), JSON_COMPACT);
		message.fds[0] = text ? sealed_new("prepared", text, strlen(text)) : -EBADF;
		if (message.fds[0] < 0)
			(void)snprintf(message.text, sizeof(message.text), "out of memory");
	}
	(void)auxiliary_send(dra->process, &message);
}

/* Plans the next time when less is wanted than now. */
static void plan_linger(struct dra *dra)
{
	uint64_t next = dra_drivers_next(&dra->drivers);

	if (dra->linger_until > now_usec(CLOCK_MONOTONIC))
		next = MIN_OF(next, dra->linger_until);
	(void)sd_event_source_set_time(dra->linger_timer, next);
	(void)sd_event_source_set_enabled(dra->linger_timer, SD_EVENT_ONESHOT);
}

static void claims_changed(struct dra *dra)
{
	if (dra_claims_total(dra->claims) == 0)
		dra->linger_until = now_usec(CLOCK_MONOTONIC) + DRA_LINGER_TIME;
	(void)dra_drivers_update(&dra->drivers);
	plan_linger(dra);
	unknown_claims_follow(dra->unknown);
	manager_changed(dra->manager);
	assignments_outdated(dra->manager->assignments);
	booked_checkpoint_changed(dra->manager->booked);
}

/* Also if an administrator ends it. */
static void on_claim_ended(void *userdata)
{
	claims_changed(userdata);
}

static void on_prepared(
	uint64_t request, const json_t *claim, const struct error *error, void *userdata)
{
	size_t n_devices = dra_claim_count(claim);
	struct dra *dra = userdata;

	/* The kubelet waits. */
	send_prepared(dra, request, error ? NULL : claim, error);
	/* devplugd-cluster, which may try again, sends CLUSTER_REFUSED. */
	if (error)
		return;
	if (may_log(dra))
		log_info("prepared the claim %s/%s: %zu device%s", text_of(claim, "namespace"),
			text_of(claim, "name"), n_devices, n_devices == 1 ? "" : "s");
	claims_changed(dra);
}

static void on_unprepared(uint64_t request, const struct error *error, void *userdata)
{
	send_prepared(userdata, request, NULL, error);
}

static json_t *read_claim(const struct control_message *message, const char *driver)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *sent = NULL;
	size_t size;

	if (sealed_read(message->fds[0], CLUSTER_CLAIM_MAX, &text, &size) < 0)
		return NULL;
	sent = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	return sent ? dra_claim_read(sent, driver) : NULL;
}

static void refuse_driver(struct dra *dra, uint64_t number)
{
	struct error error = { 0 };

	(void)error_set(&error, -ENOENT, "%s", "the configuration no longer has the DRA driver");
	send_prepared(dra, number, NULL, &error);
}

static bool handle_prepare(struct dra *dra, struct control_message *message)
{
	const struct dra_registrant *driver = dra_drivers_find(&dra->drivers, message->driver);
	json_auto_t *claim = read_claim(message, driver ? driver->name : "");
	const char *uid = text_of(claim, "uid");
	const struct dra_request request = { .number = message->number, .until = message->until };
	struct error error = { 0 };
	const json_t *known;

	if (!claim)
		return false;
	if (!driver) {
		refuse_driver(dra, message->number);
		return true;
	}
	known = dra_claims_find(dra->claims, driver->name, uid);
	if (!known && dra_prepare_join(dra->preparations, driver->name, uid, &request))
		return true;
	if (known || !json_object_get(claim, "devices"))
		send_prepared(dra, message->number, known, NULL);
	else if (dra_prepare_add(dra->preparations, claim, &request, &error) < 0)
		on_prepared(message->number, claim, &error, dra);
	return true;
}

static bool handle_attributes(struct dra *dra, struct control_message *message)
{
	const struct dra_registrant *driver = dra_drivers_find(&dra->drivers, message->driver);

	return dra_attributes_take(dra->attributes, driver ? driver->name : NULL, message);
}

static bool handle_cancel(struct dra *dra, struct control_message *message)
{
	dra_prepare_drop_request(dra->preparations, message->number);
	return true;
}

static bool handle_unprepare(struct dra *dra, struct control_message *message)
{
	const struct dra_registrant *driver = dra_drivers_find(&dra->drivers, message->driver);
	json_auto_t *claim = NULL;
	struct error error = { 0 };
	int r;

	if (strlen(message->text) > DRA_CLAIM_ID_MAX || strpbrk(message->text, "/."))
		return false;
	if (!driver) {
		refuse_driver(dra, message->number);
		return true;
	}
	dra_prepare_cancel(dra->preparations, driver->name, message->text);
	claim = json_incref(
		(json_t *)(uintptr_t)dra_claims_get(dra->claims, driver->name, message->text));
	r = dra_claims_remove(dra->claims, driver->name, message->text, &error);
	if (r < 0)
		send_prepared(dra, message->number, NULL, &error);
	else
		dra_ends_add(dra->ends, message->number, message->text);
	if (r >= 0 && claim && may_log(dra))
		log_info("unprepared the claim %s/%s", text_of(claim, "namespace"),
			text_of(claim, "name"));
	claims_changed(dra);
	return true;
}

void dra_take_edits(struct dra *dra, const struct child *child, struct control_message *message)
{
	if (message->type == CHILD_EDITS_CHANGED) {
		dra_refresh_begin(dra->refreshes, child);
		return;
	}
	dra_prepare_take(dra->preparations, child, message);
	dra_refresh_take(dra->refreshes, child, message);
}

void dra_child_gone(struct dra *dra, const struct child *child)
{
	dra_prepare_child_gone(dra->preparations, child);
	dra_refresh_child_gone(dra->refreshes, child);
}

/* --- the process --- */

static bool handle_file_wanted(struct dra *dra, struct control_message *message)
{
	_cleanup_control_ struct control_message answer = CLUSTER_MESSAGE_INIT(CLUSTER_FILE);
	struct error error = { 0 };
	int r;

	answer.number = message->number;
	/* The kubeconfig file is the first one. */
	r = *message->text ? 0 : dra_identity_choose(&dra->identity, &error);
	if (r >= 0)
		r = dra_credentials_open(&dra->identity, message->text, &error);
	if (r >= 0)
		answer.fds[0] = r;
	if (r == -EPERM && may_log_failure(dra, &dra->logged, error.message))
		log_error("devplugd-cluster does not get a file: %s", error.message);
	(void)snprintf(
		answer.text, sizeof(answer.text), "%s", r < 0 ? error.message : dra->identity.path);
	(void)auxiliary_send(dra->process, &answer);
	manager_changed(dra->manager);
	return true;
}

static bool handle_node(struct dra *dra, struct control_message *message)
{
	if (dra_identity_set_certificate(&dra->identity, message->text)) {
		if (may_log(dra))
			log_notice("the node is %s, %s", dra->identity.node,
				dra->identity.node_source == DRA_NODE_CERTIFICATE
					? "as in the client certificate"
					: "because the client certificate names no node any more");
		/* A process serves one node. */
		auxiliary_set_wanted(dra->process, false);
		dra_configure(dra);
	}
	return true;
}

static bool handle_session_ended(struct dra *dra, struct control_message *message)
{
	for (size_t i = 0; i < dra->drivers.n_items; i++)
		if (message->session == dra->drivers.items[i]->session.number)
			dra_registrant_fail(dra->drivers.items[i], message->text);
	return true;
}

static bool handle_happened(struct dra *dra, struct control_message *message)
{
	struct dra_registrant *driver = dra_drivers_find(&dra->drivers, message->driver);

	for (size_t i = 0; i < _CLUSTER_EVENT_MAX; i++) {
		if (!streq(message->text, cluster_events[i]))
			continue;
		if (driver) {
			driver->counts[i].number++;
			driver->counts[i].usec += MIN_OF(message->number, EVENT_TIME_MAX);
		}
		return true;
	}
	return false;
}

static bool handle_refused(struct dra *dra, struct control_message *message)
{
	struct log_fields fields = fields_of(dra);

	fields.message_id = MESSAGE_ID_CALL_FAILED;
	if (may_log(dra))
		log_full(LOG_WARNING, &fields, "%s", message->text);
	return true;
}

static bool handle_api_failed(struct dra *dra, struct control_message *message)
{
	dra->api_failures++;
	return true;
}

static bool handle_published(struct dra *dra, struct control_message *message)
{
	struct child *child = manager_find_child(dra->manager, message->text);
	const struct dra_registrant *driver =
		child ? dra_drivers_find_of(&dra->drivers, child) : NULL;

	if (driver && driver->number == message->driver)
		child->published = true;
	manager_changed(dra->manager);
	return true;
}

static bool handle_pool(struct dra *dra, struct control_message *message)
{
	const char *text = message->text[0] ? message->text : NULL;
	struct dra_registrant *driver = dra_drivers_find(&dra->drivers, message->driver);

	if (!driver)
		return true;
	if (!text)
		(void)may_log_failure(dra, &dra->logged, NULL);
	if (may_log_failure(dra, &driver->logged, text))
		log_warning("API server: %s", message->text);
	else if (driver->api_failure[0] && !text && may_log(dra))
		log_notice("the API server answers again");
	driver->generation = message->generation;
	driver->slices = message->slices;
	driver->lacks = message->lacks;
	(void)snprintf(driver->api_failure, sizeof(driver->api_failure), "%s", message->text);
	manager_changed(dra->manager);
	return true;
}

static bool handle_holders_wanted(struct dra *dra, struct control_message *message)
{
	cluster_holders_take(&dra->holders, message);
	manager_changed(dra->manager);
	return true;
}

static bool handle_reported(struct dra *dra, struct control_message *message)
{
	const char *text = message->text[0] ? message->text : NULL;

	if (may_log_failure(dra, &dra->report_logged, text))
		log_warning("API server: %s", text);
	cluster_report_take(dra->report, message);
	manager_changed(dra->manager);
	return true;
}

static bool handle_labelled(struct dra *dra, struct control_message *message)
{
	const char *text = message->text[0] ? message->text : NULL;

	if (may_log_failure(dra, &dra->labels_logged, text))
		log_warning("the labels of the node cannot be written: %s", text);
	cluster_labels_take(dra->manager, message);
	manager_changed(dra->manager);
	return true;
}

static bool handle_unknown(struct dra *dra, struct control_message *message)
{
	return unknown_claims_take(dra->unknown, message);
}

static bool handle_evicted(struct dra *dra, struct control_message *message)
{
	return evictions_take_results(dra->manager->evictions, message);
}

static bool on_message(struct control_message *message, void *userdata)
{
	static bool (*const handlers[])(struct dra * dra, struct control_message * message) = {
		[CLUSTER_HAPPENED] = handle_happened,
		[CLUSTER_REFUSED] = handle_refused,
		[CLUSTER_API_FAILED] = handle_api_failed,
		[CLUSTER_PUBLISHED] = handle_published,
		[CLUSTER_FILE_WANTED] = handle_file_wanted,
		[CLUSTER_NODE] = handle_node,
		[CLUSTER_PREPARE] = handle_prepare,
		[CLUSTER_CANCEL] = handle_cancel,
		[CLUSTER_UNPREPARE] = handle_unprepare,
		[CLUSTER_ATTRIBUTES] = handle_attributes,
		[CLUSTER_SESSION_ENDED] = handle_session_ended,
		[CLUSTER_UNKNOWN] = handle_unknown,
		[CLUSTER_EVICTED] = handle_evicted,
		[CLUSTER_POOL] = handle_pool,
		[CLUSTER_REPORTED] = handle_reported,
		[CLUSTER_LABELLED] = handle_labelled,
		[CLUSTER_HOLDERS_WANTED] = handle_holders_wanted,
	};

	if ((size_t)message->type >= ARRAY_SIZE(handlers) || !handlers[message->type])
		return false;
	return handlers[message->type](userdata, message);
}

static int send_settings(struct dra *dra)
{
	_cleanup_close_ int fd = sealed_new("settings", dra->settings, strlen(dra->settings));
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_CONFIGURE);

	if (fd < 0)
		return fd;
	message.fds[0] = fd;
	return auxiliary_send(dra->process, &message);
}

/* The process does not have the document of any resource. */
static void send_all_devices(struct dra *dra)
{
	for (size_t i = 0; i < dra->manager->n_children; i++) {
		struct child *child = dra->manager->children[i];

		child->devices_passed_on = false;
		child->devices_not_before = 0;
		(void)dra_send_devices(dra, child);
	}
}

void dra_send_changes(struct dra *dra)
{
	if (auxiliary_is_running(dra->process))
		(void)dra_held_send(dra->process, dra->claims, dra->preparations, &dra->held_sent);
	if (cluster_report_send(dra->report))
		send_all_devices(dra);
	cluster_holders_send(&dra->holders, dra->manager, dra->process);
	cluster_labels_send(&dra->labels, dra->manager, dra->process);
}

/* Whether the process uses the document of the resource. */
static bool wants_devices(const struct dra *dra, const struct child *child)
{
	return child_registration(child) == REGISTRATION_DRA ||
		cluster_report_is_wanted(dra->report);
}

uint64_t dra_send_devices(struct dra *dra, struct child *child)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (child->devices_fd < 0 || child->leaving || child->devices_passed_on ||
		!wants_devices(dra, child) || !auxiliary_is_running(dra->process))
		return USEC_INFINITY;
	if (now < child->devices_not_before)
		return child->devices_not_before;
	if (auxiliary_send_devices(dra->process, child) < 0)
		return now + DEVICES_RETRY;
	child->devices_passed_on = true;
	child->devices_not_before = now + DEVICES_INTERVAL;
	return USEC_INFINITY;
}

static int on_started(struct auxiliary *process, void *userdata)
{
	struct dra *dra = userdata;
	int r;

	/* Before the settings, with which it begins to publish. */
	dra->held_sent = 0;
	r = dra_held_send(dra->process, dra->claims, dra->preparations, &dra->held_sent);
	if (r >= 0)
		r = send_settings(dra);
	cluster_report_started(dra->report);
	dra->holders = (struct cluster_holders){ 0 };
	(void)cluster_report_send(dra->report);
	cluster_labels_done(&dra->labels);
	cluster_labels_send(&dra->labels, dra->manager, dra->process);
	send_all_devices(dra);
	manager_changed(dra->manager);
	if (r >= 0)
		evictions_send(dra->manager->evictions);
	if (r >= 0)
		dra_drivers_open(&dra->drivers);
	return r;
}

static void on_ended(void *userdata)
{
	struct dra *dra = userdata;

	dra_prepare_drop_requests(dra->preparations);
	dra_ends_drop(dra->ends);
	if (dra->settings && !dra->manager->stopping)
		dra_drivers_suspend(&dra->drivers, PROGRAM " does not run");
	else
		dra_drivers_close(&dra->drivers, PROGRAM " does not run");
}

/* --- the configuration --- */

static bool names_a_driver(const struct config *config)
{
	for (size_t i = 0; i < config->n_resources; i++)
		if (resource_config_driver(&config->resources[i]))
			return true;
	return config->dra.driver;
}

/* Returns 1 if the process has to be replaced. */
static int take_names(struct dra *dra, const struct config *config)
{
	int identity, directory;

	/* In the newest file nothing needs the process, but not all children have accepted that, or
	 * it removes what it wrote. */
	if (!names_a_driver(config) && dra_rights_features(config) == 0)
		return dra->registry_dir ? 0 : -ENOENT;
	identity = dra_identity_configure(&dra->identity, config);
	directory = replace_text(&dra->registry_dir, config->kubelet.plugins_registry_dir);
	return identity < 0 || directory < 0 ? -ENOMEM : identity > 0 || directory > 0;
}

static int make_settings(const struct dra *dra, char **ret)
{
	json_auto_t *settings = json_pack("{s:s, s:b, s:b, s:o}", "node", dra->identity.node,
		"node_settled", !dra_identity_wants_certificate(&dra->identity), "claim_status",
		dra->manager->config->dra.claim_status, "drivers",
		dra_drivers_settings(&dra->drivers));

	*ret = settings ? json_dumps(settings, JSON_COMPACT) : NULL;
	return *ret ? 0 : -ENOMEM;
}

/* Whether there are claims to unprepare, and a driver to do it. */
static bool has_claims(struct dra *dra)
{
	size_t n = dra_claims_total(dra->claims);

	if (n == 0)
		return dra->settings && now_usec(CLOCK_MONOTONIC) < dra->linger_until;
	if (dra->registry_dir || names_a_driver(dra->manager->config))
		return true;
	if (log_once_admits(&dra->claims_logged, "no driver"))
		log_warning("%zu claim%s still prepared, but the configuration has no dra.driver: "
			    "the pods cannot end. Set dra.driver again until they have",
			n, n == 1 ? " is" : "s are");
	return false;
}

/* The process is started again with other names, and without drivers that are not needed. */
static int renew(struct dra *dra, char **ret_settings)
{
	int r = take_names(dra, dra->manager->config);

	/* The registry may be in another directory. */
	if (r > 0)
		dra_drivers_close(
			&dra->drivers, "the configuration names another node or registry");
	if (dra_drivers_drop_unused(&dra->drivers) || r > 0)
		auxiliary_set_wanted(dra->process, false);
	return r < 0 ? r : make_settings(dra, ret_settings);
}

/* What a feature wrote is removed after it is switched off. */
static void note_features(struct dra *dra)
{
	unsigned before = dra->features & ~(unsigned)DRA_FEATURE_SERVE;

	dra->features = dra_rights_features(dra->manager->config);
	if (before & ~dra->features)
		dra->linger_until = now_usec(CLOCK_MONOTONIC) + DRA_LINGER_TIME;
}

void dra_configure(struct dra *dra)
{
	_cleanup_free_ char *before = NULL, *settings = NULL;
	int r;

	dra_claims_configure(dra->claims);
	unknown_claims_follow(dra->unknown);
	note_features(dra);
	r = dra_drivers_update(&dra->drivers);
	if (r >= 0 && dra->features == 0 && !dra_drivers_any_resource(&dra->drivers) &&
		!has_claims(dra)) {
		auxiliary_set_wanted(dra->process, false);
		free(TAKE_PTR(dra->settings));
		return;
	}
	if (r >= 0)
		r = renew(dra, &settings);
	if (r < 0) {
		log_error("devplugd-cluster cannot be configured: %s", strerror(-r));
		return;
	}
	before = TAKE_PTR(dra->settings);
	dra->settings = TAKE_PTR(settings);
	if (auxiliary_is_running(dra->process) && (!before || !streq(before, dra->settings)) &&
		send_settings(dra) >= 0)
		dra_drivers_open(&dra->drivers);
	auxiliary_set_wanted(dra->process, true);
	plan_linger(dra);
	notify_later(dra);
}

json_t *dra_numbers(const struct dra *dra)
{
	if (!dra || !dra->settings)
		return NULL;
	return json_pack("{s:I, s:o}", "api_failures", (json_int_t)dra->api_failures, "drivers",
		dra_drivers_numbers(&dra->drivers));
}

json_t *dra_describe_cluster(const struct dra *dra)
{
	const struct cluster_config *wanted = dra ? &dra->manager->config->cluster : NULL;

	if (!wanted || !dra->settings || !(wanted->report || (dra->features & DRA_FEATURE_LABELS)))
		return NULL;
	return json_pack("{s:b, s:b, s:s, s:s, s:s, s:s, s:i, s:s}", "report", (int)wanted->report,
		"labels", (int)wanted->labels, "node", dra->identity.node, "node_source",
		dra_identity_node_source(&dra->identity), "identity",
		dra_identity_word(&dra->identity), "credentials",
		dra->identity.kind ? dra->identity.path : "", "pid",
		(int)auxiliary_pid(dra->process), "report_failure",
		cluster_report_failure(dra->report));
}

json_t *dra_describe(const struct dra *dra)
{
	json_auto_t *list = NULL;
	json_t *described;

	if (!dra || !dra->settings || dra->drivers.n_items == 0)
		return NULL;
	list = dra_drivers_describe(&dra->drivers, dra->manager->config->dra.driver);
	described = json_pack("{s:s, s:s, s:s, s:s, s:i, s:O}", "node", dra->identity.node,
		"node_source", dra_identity_node_source(&dra->identity), "identity",
		dra_identity_word(&dra->identity), "credentials",
		dra->identity.kind ? dra->identity.path : "", "pid",
		(int)auxiliary_pid(dra->process), "drivers", list);
	(void)json_object_update_missing(described, json_array_get(list, 0));
	(void)json_object_del(described, "resources");
	return described;
}

static int on_linger(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dra *dra = userdata;

	if (!dra->manager->stopping)
		dra_configure(dra);
	return 0;
}

/* --- --- */

int dra_new(struct manager *manager, struct dra **ret)
{
	_cleanup_(dra_freep) struct dra *dra = calloc(1, sizeof(*dra));
	const struct auxiliary_options options = {
		.protocol = &control_cluster,
		.program = PROGRAM,
		.on_started = on_started,
		.on_message = on_message,
		.on_ended = on_ended,
		.userdata = dra,
	};
	int r;

	if (!dra)
		return -ENOMEM;
	dra->manager = manager;
	r = dra_claims_new(manager, on_claim_ended, dra, &dra->claims);
	manager->dra_claims = dra->claims;
	if (r >= 0)
		r = dra_prepare_new(manager, dra->claims, on_prepared, dra, &dra->preparations);
	if (r >= 0)
		r = dra_ends_new(manager, on_unprepared, dra, &dra->ends);
	if (r >= 0)
		r = dra_refresh_new(manager, dra->claims, &dra->refreshes);
	if (r >= 0)
		r = dra_attributes_new(manager->event, dra->claims, &dra->attributes);
	if (r >= 0)
		r = auxiliary_new(manager, &options, &dra->process);
	evictions_set_process(manager->evictions, dra->process);
	dra->drivers = (struct dra_drivers){
		.manager = manager,
		.process = dra->process,
		.claims = dra->claims,
		.on_change = on_registrant,
		.userdata = dra,
	};
	if (r >= 0)
		r = unknown_claims_new(manager, dra->claims, dra->process, &dra->unknown);
	if (r >= 0)
		r = cluster_report_new(manager, dra->process, &dra->report);
	if (r >= 0)
		r = sd_event_add_time(manager->event, &dra->linger_timer, CLOCK_MONOTONIC, 0,
			USEC_PER_SEC, on_linger, dra);
	if (r >= 0)
		r = sd_event_source_set_enabled(dra->linger_timer, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_defer(manager->event, &dra->resources_source, on_resources, dra);
	if (r >= 0)
		r = sd_event_source_set_enabled(dra->resources_source, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(dra);
	return 0;
}

struct dra *dra_free(struct dra *dra)
{
	if (!dra)
		return NULL;
	(void)dra_ends_free(dra->ends);
	(void)dra_prepare_free(dra->preparations);
	(void)dra_refresh_free(dra->refreshes);
	(void)dra_attributes_free(dra->attributes);
	(void)unknown_claims_free(dra->unknown);
	(void)cluster_report_free(dra->report);
	cluster_labels_done(&dra->labels);
	dra_drivers_done(&dra->drivers);
	(void)auxiliary_free(dra->process);
	dra->manager->dra_claims = NULL;
	(void)dra_claims_free(dra->claims);
	sd_event_source_disable_unref(dra->resources_source);
	sd_event_source_disable_unref(dra->linger_timer);
	free(dra->settings);
	dra_identity_done(&dra->identity);
	free(dra->registry_dir);
	free(dra);
	return NULL;
}

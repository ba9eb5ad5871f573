/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs libcurl's multi interface on sd-event: libcurl names sockets and a time, and is called when
 * they are ready or due. All requests share one connection, as far as the server has HTTP/2. A
 * request without credentials waits in the list; with old ones, it is sent, and they are loaded
 * again a little later, so that the request does not wait for that. Handlers are called from the
 * loop only, so that they may start and cancel requests.
 */
#include "dra/dra-api.h"

#include <curl/curl.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/text.h"
#include "dra/dra-credentials-store.h"

#define WATCH_TIMEOUT 360L /* seconds; the server ends a watch before */
#define LINE_MAX_SIZE (8U << 20)
/* From a request with old credentials until they are loaded again. */
#define LOAD_DELAY (500 * USEC_PER_MSEC)

/* The end of the path of an eviction. */
#define EVICTION_END "/eviction"

/* The method of a PATCH by server-side apply. */
#define APPLY "APPLY"

struct request {
	struct request *next;
	struct dra_api *api;
	char *method, *path, *body;
	const char *content;          /* the type of the body */
	dra_answer_handler on_answer; /* NULL: cancelled, or called */
	dra_event_handler on_event;   /* NULL: not a watch */
	void *userdata;
	CURL *easy; /* NULL: not started */
	struct curl_slist *headers;
	char *text; /* the answer, or a watch's line */
	size_t size;
	bool too_long;
	bool repeated;
	unsigned generation; /* of the credentials */
	char curl_error[CURL_ERROR_SIZE];
};

struct socket_source {
	struct socket_source *next;
	curl_socket_t fd;
	sd_event_source *source;
};

struct dra_api {
	sd_event *event;
	CURLM *multi;
	sd_event_source *timer, *now; /* libcurl's, and for the time 0 */
	sd_event_source *queue_timer; /* when waiting requests are started, or fail */
	struct socket_source *sockets;
	struct request *requests;
	struct dra_credentials credentials;
	uint64_t load_at;    /* when they are loaded again, 0: not planned; CLOCK_MONOTONIC */
	uint64_t load_until; /* when loading them fails; CLOCK_MONOTONIC */
	uint64_t heard_at;   /* the last bytes of any answer; CLOCK_MONOTONIC */
	const char *node;    /* NULL before dra_api_set_node() */
	bool node_settled;
	bool announced; /* whether CLUSTER_NODE was sent, with this name: */
	char announced_node[DRA_CERTIFICATE_NODE_MAX + 1];
};

/* --- requests --- */

static void drop_transfer(struct request *request)
{
	if (request->easy) {
		(void)curl_multi_remove_handle(request->api->multi, request->easy);
		curl_easy_cleanup(request->easy);
	}
	for (struct curl_slist *header = request->headers; header; header = header->next)
		explicit_bzero(header->data, strlen(header->data));
	curl_slist_free_all(request->headers);
	request->easy = NULL;
	request->headers = NULL;
}

static struct request *request_free(struct request *request)
{
	struct dra_api *api = request->api;

	for (struct request **r = &api->requests; *r; r = &(*r)->next)
		if (*r == request) {
			*r = request->next;
			break;
		}
	drop_transfer(request);
	free(request->method);
	free(request->path);
	free(request->body);
	free(request->text);
	free(request);
	return NULL;
}

/* Whether the metrics count it. A missing object, a conflict, and an eviction that a disruption
 * budget refuses are answers of a server that works. */
static bool is_failure(const struct request *request, const struct dra_answer *answer)
{
	size_t length = strlen(request->path), end = strlen(EVICTION_END);
	bool evicts = length > end && streq(request->path + length - end, EVICTION_END);

	return answer->failure && answer->code != 404 && answer->code != 409 &&
		!(answer->code == 429 && evicts);
}

static void give_answer(struct request *request, const struct dra_answer *answer)
{
	const struct control_message failed = CLUSTER_MESSAGE_INIT(CLUSTER_API_FAILED);
	bool count = request->on_answer && is_failure(request, answer);
	dra_answer_handler on_answer = TAKE_PTR(request->on_answer);
	void *userdata = request->userdata;

	(void)request_free(request);
	if (count)
		(void)control_send(CONTROL_FD, &failed);
	if (on_answer)
		on_answer(answer, userdata);
}

static void fail(struct request *request, const char *failure)
{
	const struct dra_answer answer = { .failure = failure };

	give_answer(request, &answer);
}

/* Handles the complete events of a watch. */
static void take_lines(struct request *request)
{
	char *begin = request->text, *end;

	while (request->on_answer &&
		(end = memchr(begin, '\n', request->size - (size_t)(begin - request->text)))) {
		json_t *event = json_loadb(begin, (size_t)(end - begin), 0, NULL);

		begin = end + 1;
		if (event)
			request->on_event(event, request->userdata);
		json_decref(event);
	}
	request->size -= (size_t)(begin - request->text);
	memmove(request->text, begin, request->size);
}

static size_t on_data(char *data, size_t one, size_t size, void *userdata)
{
	struct request *request = userdata;
	size_t most = request->on_event ? LINE_MAX_SIZE : DRA_API_ANSWER_MAX;
	char *text;

	request->api->heard_at = now_usec(CLOCK_MONOTONIC);
	if (!request->on_answer)
		return 0;
	if (request->size + size > most) {
		request->too_long = true;
		return 0;
	}
	text = realloc(request->text, request->size + size + 1);
	if (!text)
		return 0;
	request->text = text;
	memcpy(text + request->size, data, size);
	request->size += size;
	text[request->size] = '\0';
	if (request->on_event)
		take_lines(request);
	return size;
}

static int add_headers(struct request *request)
{
	const struct dra_credentials *credentials = &request->api->credentials;
	_cleanup_free_ char *authorization = NULL;
	struct curl_slist *list;

	list = curl_slist_append(NULL, "Accept: application/json");
	if (!list)
		return -ENOMEM;
	request->headers = list;
	list = curl_slist_append(list, request->body ? request->content : "Expect:");
	if (!list || !credentials->texts[DRA_FILE_TOKEN])
		return list ? 0 : -ENOMEM;
	if (format_text(&authorization, "Authorization: Bearer %s",
		    credentials->texts[DRA_FILE_TOKEN]) < 0)
		return -ENOMEM;
	list = curl_slist_append(list, authorization);
	explicit_bzero(authorization, strlen(authorization));
	return list ? 0 : -ENOMEM;
}

#define SET(easy, option, value) (curl_easy_setopt((easy), (option), (value)) != CURLE_OK)

static int set_credentials(struct request *request)
{
	const struct dra_credentials *credentials = &request->api->credentials;
	const char *ca, *certificate, *key;
	char ca_path[32], certificate_path[32], key_path[32];
	CURL *easy = request->easy;
	int failed = 0;

	ca = dra_credentials_path(credentials, DRA_FILE_CA, ca_path);
	certificate = dra_credentials_path(credentials, DRA_FILE_CERTIFICATE, certificate_path);
	key = dra_credentials_path(credentials, DRA_FILE_KEY, key_path);
	if (ca) {
		failed |= SET(easy, CURLOPT_CAINFO, ca);
		failed |= SET(easy, CURLOPT_CAPATH, NULL);
	}
	if (certificate) {
		failed |= SET(easy, CURLOPT_SSLCERT, certificate);
		/* kubelet-client-current.pem contains both. */
		failed |= SET(easy, CURLOPT_SSLKEY, key ?: certificate);
	}
	if (credentials->config.insecure) {
		failed |= SET(easy, CURLOPT_SSL_VERIFYPEER, 0L);
		failed |= SET(easy, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	return failed ? -ENOMEM : 0;
}

static int set_options(struct request *request)
{
	_cleanup_free_ char *url = NULL;
	const char *server = request->api->credentials.config.server;
	CURL *easy = request->easy;
	size_t length = strlen(server);
	int failed = 0;

	while (length > 0 && server[length - 1] == '/')
		length--;
	if (format_text(&url, "%.*s%s", (int)length, server, request->path) < 0)
		return -ENOMEM;
	failed |= SET(easy, CURLOPT_URL, url);
	failed |= SET(easy, CURLOPT_PATH_AS_IS, 1L);
	failed |= SET(easy, CURLOPT_CUSTOMREQUEST, request->method);
	failed |= SET(easy, CURLOPT_NOSIGNAL, 1L);
	failed |= SET(easy, CURLOPT_PROXY, "");
	failed |= SET(easy, CURLOPT_PRIVATE, request);
	failed |= SET(easy, CURLOPT_WRITEFUNCTION, on_data);
	failed |= SET(easy, CURLOPT_WRITEDATA, request);
	failed |= SET(easy, CURLOPT_ERRORBUFFER, request->curl_error);
	/* Watches keep the connection open, so that requests do not wait for a new one. */
	failed |= SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	failed |= SET(easy, CURLOPT_PIPEWAIT, 1L);
	failed |= SET(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	failed |= SET(easy, CURLOPT_USERAGENT, "devplugd-cluster/" DEVPLUGD_VERSION);
	failed |= SET(easy, CURLOPT_CONNECTTIMEOUT, (long)(DRA_API_TIMEOUT / USEC_PER_SEC));
	failed |= SET(easy, CURLOPT_TIMEOUT,
		request->on_event ? WATCH_TIMEOUT : (long)(DRA_API_TIMEOUT / USEC_PER_SEC));
	if (request->body)
		failed |= SET(easy, CURLOPT_POSTFIELDS, request->body);
	if (add_headers(request) < 0 || set_credentials(request) < 0)
		return -ENOMEM;
	failed |= SET(easy, CURLOPT_HTTPHEADER, request->headers);
	return failed ? -ENOMEM : 0;
}

static int start(struct request *request)
{
	request->generation = request->api->credentials.generation;
	request->easy = curl_easy_init();
	if (request->easy && set_options(request) >= 0 &&
		curl_multi_add_handle(request->api->multi, request->easy) == CURLM_OK)
		return 0;
	drop_transfer(request);
	return -ENOMEM;
}

/* --- credentials --- */

/* Whether they have to be loaded, and are not being loaded. */
static bool need_load(const struct dra_credentials *credentials)
{
	return !credentials->loading &&
		(credentials->outdated || credentials->loaded_at == 0 ||
			now_usec(CLOCK_MONOTONIC) >= credentials->stale_at);
}

/* Whether they may be sent, also while they are loaded again. */
static bool are_usable(const struct dra_credentials *credentials)
{
	return credentials->loaded_at > 0 && !credentials->outdated;
}

/* The first waiting request, or NULL. */
static struct request *find_waiting(struct dra_api *api)
{
	for (struct request *r = api->requests; r; r = r->next)
		if (!r->easy)
			return r;
	return NULL;
}

static bool may_start(const struct dra_api *api)
{
	return !api->credentials.loading || are_usable(&api->credentials);
}

static void plan_queue(struct dra_api *api)
{
	uint64_t due = api->credentials.loading ? api->load_until : api->load_at ?: USEC_INFINITY;

	if (find_waiting(api) && may_start(api))
		due = 0;
	(void)sd_event_source_set_time(api->queue_timer, due);
	(void)sd_event_source_set_enabled(api->queue_timer, SD_EVENT_ONESHOT);
}

static void load_credentials(struct dra_api *api)
{
	if (api->credentials.loading)
		return;
	api->load_at = 0;
	api->load_until = now_usec(CLOCK_MONOTONIC) + DRA_CREDENTIALS_WAIT;
	dra_credentials_load(&api->credentials);
}

static void start_waiting(struct dra_api *api)
{
	char failure[CONTROL_TEXT_MAX + 32];
	struct request *request;

	(void)snprintf(failure, sizeof(failure), "no credentials: %s", api->credentials.failure);
	while ((request = find_waiting(api)) && may_start(api)) {
		if (api->credentials.loaded_at == 0)
			fail(request, failure);
		else if (start(request) < 0)
			fail(request, "out of memory");
	}
	plan_queue(api);
}

/* Sends the name in the client certificate. Returns whether it shall replace the node's. */
static bool announce_node(struct dra_api *api)
{
	struct control_message message = CLUSTER_MESSAGE_INIT(CLUSTER_NODE);
	const char *node = api->credentials.node;

	if (api->credentials.loaded_at == 0 || (api->announced && streq(node, api->announced_node)))
		return false;
	(void)snprintf(message.text, sizeof(message.text), "%s", node);
	(void)control_send(CONTROL_FD, &message);
	(void)snprintf(api->announced_node, sizeof(api->announced_node), "%s", node);
	api->announced = true;
	return !api->node_settled && *node && !streq(node, api->node ?: "");
}

void dra_api_set_node(struct dra_api *api, const char *node, bool settled)
{
	api->node = node;
	api->node_settled = settled;
}

void dra_api_take_file(struct dra_api *api, struct control_message *message)
{
	/* If the process is not replaced, the timer starts the requests. */
	if (dra_credentials_take(&api->credentials, message) && !announce_node(api))
		start_waiting(api);
}

static int on_queue_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dra_api *api = userdata;
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (api->credentials.loading && now >= api->load_until)
		dra_credentials_fail(&api->credentials, "devplugd passed none");
	if (api->load_at > 0 && now >= api->load_at)
		load_credentials(api);
	start_waiting(api);
	return 0;
}

static int add_request(struct dra_api *api, struct request *request)
{
	struct request **last = &api->requests;

	while (*last)
		last = &(*last)->next;
	*last = request;
	if (!are_usable(&api->credentials))
		load_credentials(api);
	else {
		if (need_load(&api->credentials) && api->load_at == 0)
			api->load_at = now_usec(CLOCK_MONOTONIC) + LOAD_DELAY;
		/* If it fails, the timer tries again: handlers are called from the loop only. */
		(void)start(request);
	}
	plan_queue(api);
	return 0;
}

/* --- answers --- */

/* The server's description of its failure, from a Status object. */
static void describe(
	const struct request *request, long code, const json_t *body, char *ret, size_t size)
{
	const char *message = json_string_value(json_object_get(body, "message"));

	(void)snprintf(ret, size, "%s %.*s: %ld%s%.200s", request->method,
		(int)strcspn(request->path, "?"), request->path, code, message ? ": " : "",
		message ?: "");
	text_sanitize(ret);
}

/* Sends a request again that failed because of its credentials. Returns whether it does. */
static bool repeat(struct request *request)
{
	struct dra_api *api = request->api;

	if (request->repeated || !request->on_answer)
		return false;
	request->repeated = true;
	drop_transfer(request);
	free(TAKE_PTR(request->text));
	request->size = 0;
	if (need_load(&api->credentials))
		load_credentials(api);
	plan_queue(api);
	return true;
}

/* With HTTP/2, a request that times out leaves the connection open. If the peer has disappeared,
 * all later ones would time out as well until the kernel gives up, which takes a quarter of an
 * hour. So connections on which nothing arrives are cut, which ends their other requests. */
static void cut_silent_connections(struct request *request)
{
	const struct dra_api *api = request->api;
	curl_socket_t fd = CURL_SOCKET_BAD;

	if (now_usec(CLOCK_MONOTONIC) - api->heard_at < DRA_API_TIMEOUT)
		return;
	for (const struct socket_source *s = api->sockets; s; s = s->next)
		(void)shutdown(s->fd, SHUT_RDWR);
	/* One without other requests is not among them. */
	if (curl_easy_getinfo(request->easy, CURLINFO_ACTIVESOCKET, &fd) == CURLE_OK &&
		fd != CURL_SOCKET_BAD)
		(void)shutdown(fd, SHUT_RDWR);
}

static void complete(struct request *request, CURLcode result)
{
	struct dra_answer answer = { 0 };
	char failure[640] = "";
	curl_off_t retry_after = 0;
	long code = 0;

	(void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &code);
	(void)curl_easy_getinfo(request->easy, CURLINFO_RETRY_AFTER, &retry_after);
	if (result == CURLE_OPERATION_TIMEDOUT)
		cut_silent_connections(request);
	/* The server's certificate or address may have changed. */
	if (result != CURLE_OK && code == 0)
		request->api->credentials.outdated = true;
	if (code == 401 && request->generation == request->api->credentials.generation)
		request->api->credentials.loaded_at = 0;
	if ((code == 401 ||
		    (code == 0 && request->generation != request->api->credentials.generation)) &&
		repeat(request))
		return;
	if (result != CURLE_OK) {
		(void)snprintf(failure, sizeof(failure), "%s %.*s: %.200s", request->method,
			(int)strcspn(request->path, "?"), request->path,
			request->too_long              ? "the answer is too long"
				: *request->curl_error ? request->curl_error
						       : curl_easy_strerror(result));
		text_sanitize(failure);
		answer.failure = failure;
		answer.timed_out = result == CURLE_OPERATION_TIMEDOUT;
	} else {
		answer.code = (int)code;
		if (request->text && !request->on_event)
			answer.body = json_loadb(request->text, request->size, 0, NULL);
		if (code < 200 || code > 299)
			describe(request, code, answer.body, failure, sizeof(failure));
		else if (!answer.body && !request->on_event)
			(void)snprintf(failure, sizeof(failure), "%s %.*s: the answer is not JSON",
				request->method, (int)strcspn(request->path, "?"), request->path);
		answer.failure = failure[0] ? failure : NULL;
		answer.retry_after = retry_after > 0 ? (uint64_t)retry_after : 0;
	}
	give_answer(request, &answer);
	json_decref(answer.body);
}

static void take_completed(struct dra_api *api)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(api->multi, &left)))
		if (message->msg == CURLMSG_DONE) {
			CURLcode result = message->data.result;
			struct request *request = NULL;
			char *found = NULL;

			(void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &found);
			request = (struct request *)(void *)found;
			if (request)
				complete(request, result);
		}
}

/* --- libcurl's events --- */

static int on_socket_event(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct dra_api *api = userdata;
	int running,
		action = (revents & (EPOLLIN | EPOLLHUP | EPOLLERR) ? CURL_CSELECT_IN : 0) |
		(revents & EPOLLOUT ? CURL_CSELECT_OUT : 0);

	(void)curl_multi_socket_action(api->multi, fd, action, &running);
	take_completed(api);
	return 0;
}

static void forget_socket(struct dra_api *api, curl_socket_t fd)
{
	for (struct socket_source **s = &api->sockets; *s; s = &(*s)->next)
		if ((*s)->fd == fd) {
			struct socket_source *found = *s;

			*s = found->next;
			sd_event_source_disable_unref(found->source);
			free(found);
			return;
		}
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *userdata, void *socket_data)
{
	uint32_t events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) |
		(what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0);
	struct dra_api *api = userdata;
	struct socket_source *found = api->sockets;

	if (what == CURL_POLL_REMOVE) {
		forget_socket(api, fd);
		return 0;
	}
	while (found && found->fd != fd)
		found = found->next;
	if (found)
		return sd_event_source_set_io_events(found->source, events) < 0 ? -1 : 0;
	found = calloc(1, sizeof(*found));
	if (!found)
		return -1;
	found->fd = fd;
	if (sd_event_add_io(api->event, &found->source, fd, events, on_socket_event, api) < 0) {
		free(found);
		return -1;
	}
	found->next = api->sockets;
	api->sockets = found;
	return 0;
}

static int on_now(sd_event_source *source, void *userdata)
{
	struct dra_api *api = userdata;
	int running;

	(void)curl_multi_socket_action(api->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	take_completed(api);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	return on_now(source, userdata);
}

static int on_timeout_wanted(CURLM *multi, long timeout, void *userdata)
{
	struct dra_api *api = userdata;

	(void)sd_event_source_set_enabled(api->now, timeout == 0 ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
	if (timeout <= 0)
		return sd_event_source_set_enabled(api->timer, SD_EVENT_OFF) < 0 ? -1 : 0;
	(void)sd_event_source_set_time(
		api->timer, now_usec(CLOCK_MONOTONIC) + (uint64_t)timeout * USEC_PER_MSEC);
	return sd_event_source_set_enabled(api->timer, SD_EVENT_ONESHOT) < 0 ? -1 : 0;
}

/* --- --- */

static int make_request(struct dra_api *api, const char *method, const char *path,
	const json_t *body, dra_event_handler on_event, dra_answer_handler on_answer,
	void *userdata)
{
	struct request *request = calloc(1, sizeof(*request));
	bool apply = streq(method, APPLY);

	if (!request)
		return -ENOMEM;
	request->api = api;
	request->method = strdup(apply ? "PATCH" : method);
	request->path = strdup(path);
	request->body = body ? json_dumps(body, JSON_COMPACT) : NULL;
	request->content = apply         ? "Content-Type: application/apply-patch+yaml"
		: streq(method, "PATCH") ? "Content-Type: application/strategic-merge-patch+json"
					 : "Content-Type: application/json";
	request->on_event = on_event;
	request->on_answer = on_answer;
	request->userdata = userdata;
	if (!request->method || !request->path || (body && !request->body)) {
		(void)request_free(request);
		return -ENOMEM;
	}
	return add_request(api, request);
}

int dra_api_request(struct dra_api *api, const char *method, const char *path, const json_t *body,
	dra_answer_handler on_answer, void *userdata)
{
	return make_request(api, method, path, body, NULL, on_answer, userdata);
}

int dra_api_apply(struct dra_api *api, const char *path, const json_t *body,
	dra_answer_handler on_answer, void *userdata)
{
	return make_request(api, APPLY, path, body, NULL, on_answer, userdata);
}

unsigned dra_api_credentials(const struct dra_api *api)
{
	return api->credentials.generation;
}

int dra_api_watch(struct dra_api *api, const char *path, dra_event_handler on_event,
	dra_answer_handler on_end, void *userdata)
{
	return make_request(api, "GET", path, NULL, on_event, on_end, userdata);
}

void dra_api_cancel(struct dra_api *api, const void *userdata)
{
	struct request *next;

	for (struct request *r = api->requests; r; r = next) {
		next = r->next;
		if (r->userdata == userdata)
			(void)request_free(r);
	}
}

int dra_api_new(sd_event *event, struct dra_api **ret)
{
	_cleanup_(dra_api_freep) struct dra_api *api = calloc(1, sizeof(*api));
	int r;

	if (!api)
		return -ENOMEM;
	api->credentials = DRA_CREDENTIALS_INIT;
	api->event = event;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return -ENOMEM;
	api->multi = curl_multi_init();
	if (!api->multi ||
		curl_multi_setopt(api->multi, CURLMOPT_SOCKETFUNCTION, on_socket) != CURLM_OK ||
		curl_multi_setopt(api->multi, CURLMOPT_SOCKETDATA, api) != CURLM_OK ||
		curl_multi_setopt(api->multi, CURLMOPT_TIMERFUNCTION, on_timeout_wanted) !=
			CURLM_OK ||
		curl_multi_setopt(api->multi, CURLMOPT_TIMERDATA, api) != CURLM_OK)
		return -ENOMEM;
	r = sd_event_add_time(event, &api->timer, CLOCK_MONOTONIC, USEC_INFINITY, 1, on_timer, api);
	if (r >= 0)
		r = sd_event_add_defer(event, &api->now, on_now, api);
	if (r >= 0)
		r = sd_event_source_set_enabled(api->now, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time(event, &api->queue_timer, CLOCK_MONOTONIC, USEC_INFINITY,
			100 * USEC_PER_MSEC, on_queue_timer, api);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(api);
	return 0;
}

struct dra_api *dra_api_free(struct dra_api *api)
{
	if (!api)
		return NULL;
	while (api->requests)
		(void)request_free(api->requests);
	if (api->multi)
		(void)curl_multi_cleanup(api->multi);
	while (api->sockets)
		forget_socket(api, api->sockets->fd);
	sd_event_source_disable_unref(api->timer);
	sd_event_source_disable_unref(api->now);
	sd_event_source_disable_unref(api->queue_timer);
	dra_credentials_done(&api->credentials);
	free(api);
	return NULL;
}

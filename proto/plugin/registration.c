/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls Register, and decides what its end means. The answer arrives on gRPC's thread as a message,
 * which outlives the registration if the registration ends first.
 */
#include "proto/plugin/registration.h"

#include "deviceplugin.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"
#include "proto/rpc.h"

struct registration {
	struct rpc_client *kubelet;
	sd_event_source *timeout;
	struct answer *answer; /* while the call is pending */
	registration_handler on_end;
	void *userdata;
};

/* A pending call. */
struct answer {
	struct mailbox_message base;
	struct mailbox *mailbox;
	struct registration *registration; /* NULL: it is over. Main thread only */
	int status;
	char text[480];
};

static void end_refused(struct registration *registration, const char *text)
{
	char why[600];

	(void)snprintf(why, sizeof(why), "the kubelet refused the registration: %s", text);
	registration->on_end(registration, why, registration->userdata);
}

static void deliver_answer(struct mailbox_message *base, void *userdata)
{
	struct answer *answer = (struct answer *)(void *)base;
	struct registration *registration = answer->registration;

	if (userdata && registration) {
		registration->answer = NULL;
		if (answer->status == RPC_OK)
			registration->on_end(registration, NULL, registration->userdata);
		else if (answer->status == RPC_UNAVAILABLE)
			registration->on_end(registration,
				"the kubelet closed the connection before it answered Register",
				registration->userdata);
		else
			end_refused(registration, answer->text);
	}
	free(answer);
}

static void on_result(const struct rpc_result *result, void *userdata)
{
	struct answer *answer = userdata;

	answer->status = result->status;
	(void)snprintf(answer->text, sizeof(answer->text), "%s", result->text);
	mailbox_post(answer->mailbox, &answer->base);
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct registration *registration = userdata;

	registration->on_end(registration,
		"the kubelet did not answer Register within 20 s; see its log for the reason",
		registration->userdata);
	return 0;
}

static int pack(
	const struct registration_parameters *parameters, uint8_t **ret_data, size_t *ret_size)
{
	V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

	options.pre_start_required = parameters->pre_start_required;
	options.get_preferred_allocation_available = true;
	request.version = (char *)(uintptr_t)DEVICE_PLUGIN_VERSION;
	request.endpoint = (char *)(uintptr_t)parameters->endpoint;
	request.resource_name = (char *)(uintptr_t)parameters->name;
	request.options = &options;
	return message_pack(&request.base, ret_data, ret_size);
}

static int call(struct registration *registration, struct mailbox *mailbox,
	const struct registration_parameters *parameters)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct answer *answer;
	size_t size;
	int r;

	r = pack(parameters, &data, &size);
	if (r < 0)
		return r;
	answer = calloc(1, sizeof(*answer));
	if (!answer)
		return -ENOMEM;
	answer->base.deliver = deliver_answer;
	answer->mailbox = mailbox;
	answer->registration = registration;
	registration->answer = answer;
	/* No deadline goes with the call: from 1.36 on it would bound the kubelet's dial back, too.
	 */
	r = rpc_client_call(registration->kubelet, METHOD_REGISTER, data, size, on_result, answer);
	if (r < 0) {
		registration->answer = NULL;
		free(answer);
	}
	return r;
}

int registration_new(sd_event *event, struct mailbox *mailbox, int fd,
	const struct registration_parameters *parameters, registration_handler on_end,
	void *userdata, struct registration **ret)
{
	_cleanup_(registration_freep) struct registration *registration =
		calloc(1, sizeof(*registration));
	_cleanup_close_ int kubelet = fd;
	int r;

	if (!registration)
		return -ENOMEM;
	registration->on_end = on_end;
	registration->userdata = userdata;
	r = rpc_client_new(TAKE_FD(kubelet), &registration->kubelet);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &registration->timeout, CLOCK_MONOTONIC,
			REGISTER_TIMEOUT, 0, on_timeout, registration);
	if (r >= 0)
		r = call(registration, mailbox, parameters);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(registration);
	return 0;
}

struct registration *registration_free(struct registration *registration)
{
	if (!registration)
		return NULL;
	if (registration->answer)
		registration->answer->registration = NULL;
	(void)rpc_client_free(registration->kubelet);
	sd_event_source_disable_unref(registration->timeout);
	free(registration);
	return NULL;
}

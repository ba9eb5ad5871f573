/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims are allocated here and not by devplug-apiserver, because cases need certain devices. So
 * their DeviceClass does not exist, and their status is written as the scheduler writes it.
 */
#include "kubelet/conformance/api-server.h"

#include "common/json-read.h"
#include "kubelet/control-client.h"

#define GROUP_PATH  "/apis/resource.k8s.io/v1/"
#define SLICES_PATH GROUP_PATH "resourceslices"
#define NAMESPACE   "default"
#define CLAIMS_PATH GROUP_PATH "namespaces/" NAMESPACE "/resourceclaims"
#define REQUEST     "gpu"
#define ALTERNATIVE "first"

static const char *const usual_claims[] = { "devplug-kubelet-first", "devplug-kubelet-other",
	"devplug-kubelet-rival" };

/* --- requests --- */

/* False: no answer. */
static bool ask(struct trial *trial, const char *method, const char *path, json_t *body,
	json_int_t *ret_code, json_t **ret_body)
{
	json_auto_t *request =
		json_pack("{s:s, s:s, s:o*}", "method", method, "path", path, "body", body);
	json_auto_t *reply = NULL;
	struct error error = {};

	if (client_exchange(trial->options->apiserver, "devplug-apiserver", "--apiserver", request,
		    &reply, &error) < 0) {
		(void)trial_fail(trial, "%s", error.message);
		return false;
	}
	*ret_code = json_integer_value(json_object_get(reply, "code"));
	*ret_body = json_incref(json_object_get(reply, "body"));
	return true;
}

bool api_request(
	struct trial *trial, const char *method, const char *path, json_t *body, json_t **ret)
{
	json_auto_t *found = NULL;
	json_int_t code;

	if (!ask(trial, method, path, body, &code, &found))
		return false;
	if (code >= 300) {
		(void)trial_fail(trial, "devplug-apiserver: %s %s: %s", method, path,
			text_of(found, "message"));
		return false;
	}
	if (ret)
		*ret = json_incref(found);
	return true;
}

bool api_set_faults(struct trial *trial, json_t *faults)
{
	return api_request(trial, "PUT", "/devplug/faults",
		json_pack("{s:o}", "faults", faults ? faults : json_array()), NULL);
}

bool api_count_writes(struct trial *trial, size_t *ret)
{
	json_auto_t *body = NULL;
	const json_t *request;
	size_t i;

	if (!api_request(trial, "GET", "/devplug/requests", NULL, &body))
		return false;
	*ret = 0;
	json_array_foreach(json_object_get(body, "requests"), i, request)
	{
		*ret += !streq(text_of(request, "method"), "GET") &&
			startswith(text_of(request, "path"), SLICES_PATH);
	}
	return true;
}

/* --- slices --- */

json_t *api_slices(struct trial *trial)
{
	json_auto_t *body = NULL;
	char path[512];

	(void)snprintf(path, sizeof(path), SLICES_PATH "?fieldSelector=spec.driver%%3D%s",
		trial->resource);
	if (!api_request(trial, "GET", path, NULL, &body))
		return NULL;
	return json_incref(json_object_get(body, "items"));
}

bool api_delete_slices(struct trial *trial)
{
	char path[512];

	(void)snprintf(path, sizeof(path), SLICES_PATH "?fieldSelector=spec.driver%%3D%s",
		trial->resource);
	return api_request(trial, "DELETE", path, NULL, NULL);
}

bool api_write_slice(struct trial *trial, const json_t *slice)
{
	char path[512];

	(void)snprintf(path, sizeof(path), SLICES_PATH "/%s",
		text_of(json_object_get(slice, "metadata"), "name"));
	return api_request(trial, "PUT", path, json_deep_copy(slice), NULL);
}

json_t *api_pools(struct trial *trial)
{
	json_auto_t *body = NULL;
	char path[512];

	(void)snprintf(path, sizeof(path), "/devplug/pools?driver=%s", trial->resource);
	if (!api_request(trial, "GET", path, NULL, &body))
		return NULL;
	return json_incref(json_object_get(body, "pools"));
}

/* Devices by "POOL/NAME", with their pool; NULL: there is no pool, or one is not complete. */
static json_t *read_pools(const json_t *pools)
{
	json_t *devices = json_object(), *device;
	bool complete = json_array_size(pools) > 0;
	const json_t *pool;
	size_t i, k;

	json_array_foreach(pools, i, pool)
	{
		const char *name = text_of(pool, "name");

		complete = complete && json_is_true(json_object_get(pool, "complete"));
		json_array_foreach(json_object_get(pool, "devices"), k, device)
		{
			char key[512];

			(void)snprintf(key, sizeof(key), "%s/%s", name, text_of(device, "name"));
			(void)json_object_set_new(device, "pool", json_string(name));
			(void)json_object_set(devices, key, device);
		}
	}
	if (complete)
		return devices;
	json_decref(devices);
	return NULL;
}

/* Health may change at any time, so taints are not compared. */
static bool are_same_devices(const json_t *a, const json_t *b)
{
	json_auto_t *one = json_deep_copy(a), *other = json_deep_copy(b);
	const char *name;
	json_t *device;

	json_object_foreach(one, name, device)
	{
		(void)json_object_del(device, "taints");
	}
	json_object_foreach(other, name, device)
	{
		(void)json_object_del(device, "taints");
	}
	return json_equal(one, other);
}

const json_t *api_find_taint(const json_t *device)
{
	const json_t *taint;
	size_t i;

	json_array_foreach(json_object_get(device, "taints"), i, taint)
	{
		if (!streq(text_of(taint, "effect"), "None"))
			return taint;
	}
	return NULL;
}

struct pool_wait {
	const json_t *wanted; /* NULL: any */
	json_t *devices;      /* that were found */
	bool failed;
};

static bool has_pool(struct trial *trial, const void *data)
{
	struct pool_wait *wait = (void *)(uintptr_t)data;
	json_auto_t *pools = api_pools(trial);

	json_decref(wait->devices);
	wait->devices = pools ? read_pools(pools) : NULL;
	wait->failed = !pools;
	return wait->failed ||
		(wait->devices && (!wait->wanted || are_same_devices(wait->wanted, wait->devices)));
}

json_t *api_await_pool(struct trial *trial)
{
	struct pool_wait wait = {};

	if (trial_await_register(trial, has_pool, &wait) && !wait.failed)
		return wait.devices;
	json_decref(wait.devices);
	if (!wait.failed)
		(void)trial_fail(trial,
			"%s has not published a complete pool of ResourceSlices within %u s",
			trial->resource,
			(unsigned)(trial->options->register_timeout / USEC_PER_SEC));
	return NULL;
}

bool api_await_devices(struct trial *trial, const json_t *wanted)
{
	struct pool_wait wait = { .wanted = wanted };
	bool found = trial_await_register(trial, has_pool, &wait) && !wait.failed;

	if (!found && !wait.failed)
		(void)trial_fail(trial,
			"within %u s the pool is not the former one: %zu devices instead of %zu%s",
			(unsigned)(trial->options->register_timeout / USEC_PER_SEC),
			json_object_size(wait.devices), json_object_size(wanted),
			wait.devices ? "" : "; it is not complete");
	json_decref(wait.devices);
	return found;
}

/* --- claims --- */

bool api_delete_claim(struct trial *trial, const char *name)
{
	json_auto_t *body = NULL;
	json_int_t code;
	char path[256];

	(void)snprintf(path, sizeof(path), CLAIMS_PATH "/%s", name);
	return ask(trial, "DELETE", path, NULL, &code, &body);
}

/* A case that failed may have left it prepared. */
static void unprepare_former(struct trial *trial, const char *name)
{
	const json_t *metadata = json_object_get(json_object_get(trial->made, name), "metadata");
	const struct claim_name claim = { NAMESPACE, name, text_of(metadata, "uid") };

	if (metadata)
		(void)dra_unprepare_one(trial, &claim);
	trial->message[0] = '\0';
}

/* As the scheduler reserves it for a pod. `allocation` may be NULL. */
static bool write_status(struct trial *trial, const char *name, json_t *claim, json_t *allocation)
{
	json_t *status = json_pack("{s:[{s:s, s:s, s:s}], s:o*}", "reservedFor", "resource", "pods",
		"name", name, "uid", text_of(json_object_get(claim, "metadata"), "uid"),
		"allocation", json_incref(allocation));
	char path[256];

	(void)json_object_set_new(claim, "status", status);
	(void)snprintf(path, sizeof(path), CLAIMS_PATH "/%s/status", name);
	return api_request(trial, "PUT", path, json_incref(claim), NULL);
}

bool api_make_claim(
	struct trial *trial, const char *name, json_t *allocation, struct claim_name *ret)
{
	json_auto_t *claim = NULL, *stored = NULL, *owned = allocation;
	char path[256];

	(void)snprintf(path, sizeof(path), CLAIMS_PATH "/%s", name);
	unprepare_former(trial, name);
	if (!api_delete_claim(trial, name) ||
		!api_request(trial, "POST", CLAIMS_PATH,
			json_pack("{s:{s:s}, s:{s:{s:[{s:s, s:[{s:s, s:s}]}]}}}", "metadata",
				"name", name, "spec", "devices", "requests", "name", REQUEST,
				"firstAvailable", "name", ALTERNATIVE, "deviceClassName",
				"devplug-kubelet-conformance"),
			&claim) ||
		!write_status(trial, name, claim, owned) ||
		!api_request(trial, "GET", path, NULL, &stored))
		return false;
	(void)json_object_set(trial->made, name, stored);
	*ret = (struct claim_name){
		.namespace = NAMESPACE,
		.name = text_of(json_object_get(stored, "metadata"), "name"),
		.uid = text_of(json_object_get(stored, "metadata"), "uid"),
	};
	return true;
}

json_t *api_result(const char *driver, const char *pool, const char *device)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "request", REQUEST "/" ALTERNATIVE, "driver",
		driver, "pool", pool, "device", device);
}

/* Devices that any pod may get, in the order of their slices. */
static json_t *usable_devices(const json_t *pool)
{
	json_t *list = json_array(), *device;
	const char *name;

	json_object_foreach((json_t *)(uintptr_t)pool, name, device)
	{
		if (!api_find_taint(device) &&
			!json_is_true(json_object_get(device, "allowMultipleAllocations")))
			(void)json_array_append(list, device);
	}
	return list;
}

/* Which devices the claims get, by the number of usable devices: first, other, rival. */
static const char *const shares_of[][3] = {
	{ "", "", "" },
	{ "0", "", "0" },
	{ "0", "1", "0" },
	{ "01", "2", "1" },
	{ "01", "2", "13" },
};

bool api_make_claims(struct trial *trial)
{
	json_auto_t *pool = api_await_pool(trial), *devices = NULL;
	size_t n;

	if (!pool)
		return false;
	devices = usable_devices(pool);
	n = MIN_OF(json_array_size(devices), ARRAY_SIZE(shares_of) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(usual_claims); i++) {
		json_t *results = json_array();
		struct claim_name claim;

		for (const char *p = shares_of[n][i]; *p; p++) {
			const json_t *device = json_array_get(devices, (size_t)(*p - '0'));

			(void)json_array_append_new(results,
				api_result(trial->resource, text_of(device, "pool"),
					text_of(device, "name")));
		}
		if (json_array_size(results) == 0) {
			json_decref(results);
			continue;
		}
		if (!api_make_claim(trial, usual_claims[i],
			    json_pack("{s:{s:o}}", "devices", "results", results), &claim))
			return false;
		(void)json_array_append(
			trial->claims, json_object_get(trial->made, usual_claims[i]));
	}
	return true;
}

int api_begin(struct trial *trial, struct error *error)
{
	if (!trial->options->apiserver)
		return 0;
	if (!api_set_faults(trial, NULL) ||
		!api_request(trial, "DELETE", "/devplug/requests", NULL, NULL))
		return error_set(error, -EREMOTEIO, "%s", trial->message);
	return 0;
}

void api_clean(struct trial *trial)
{
	const char *name;
	json_t *claim;

	if (!trial->options->apiserver)
		return;
	(void)api_set_faults(trial, NULL);
	json_object_foreach(trial->made, name, claim)
	{
		(void)api_delete_claim(trial, name);
	}
}

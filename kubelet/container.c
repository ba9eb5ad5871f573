/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges the answers for a container. Each part is a JSON object while it is merged, which keeps
 * the order of arrival and finds a key in constant time; devices, mounts and CDI names become
 * arrays at the end.
 */
#include "kubelet/container.h"

#include "kubelet/plugin-text.h"

enum part {
	PART_DEVICES,
	PART_MOUNTS,
	PART_ENV,
	PART_ANNOTATIONS,
	PART_CDI,
};

static const struct {
	const char *name;
	bool is_array;
} parts[] = {
	[PART_DEVICES] = { "devices", true },
	[PART_MOUNTS] = { "mounts", true },
	[PART_ENV] = { "env", false },
	[PART_ANNOTATIONS] = { "annotations", false },
	[PART_CDI] = { "cdi", true },
};

int container_init(struct container *container)
{
	*container = (struct container){};
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		container->parts[i] = json_object();
		if (!container->parts[i]) {
			container_done(container);
			return -ENOMEM;
		}
	}
	return 0;
}

void container_done(struct container *container)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		json_decref(container->parts[i]);
	*container = (struct container){};
}

/* Puts the value (taken) under the key unless the key is there. */
static int put(struct container *container, enum part part, const char *key, json_t *value)
{
	_cleanup_json_ json_t *owned = value, *name = text_json(key);
	const json_t *other;

	if (!owned || !name)
		return -ENOMEM;
	other = json_object_get(container->parts[part], json_string_value(name));
	if (other) {
		container->dropped += !json_equal(other, owned);
		return 0;
	}
	return json_object_set_nocheck(container->parts[part], json_string_value(name), owned) < 0
		? -ENOMEM
		: 0;
}

int container_merge(struct container *container, const V1beta1__ContainerAllocateResponse *response)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < response->n_devices; i++) {
		const V1beta1__DeviceSpec *device = response->devices[i];

		r = put(container, PART_DEVICES, device->container_path,
			json_pack("{s:o, s:o, s:o}", "container_path",
				text_json(device->container_path), "host_path",
				text_json(device->host_path), "permissions",
				text_json(device->permissions)));
	}
	for (size_t i = 0; r == 0 && i < response->n_mounts; i++) {
		const V1beta1__Mount *mount = response->mounts[i];

		r = put(container, PART_MOUNTS, mount->container_path,
			json_pack("{s:o, s:o, s:b}", "container_path",
				text_json(mount->container_path), "host_path",
				text_json(mount->host_path), "read_only", mount->read_only));
	}
	for (size_t i = 0; r == 0 && i < response->n_envs; i++)
		r = put(container, PART_ENV, response->envs[i]->key,
			text_json(response->envs[i]->value));
	for (size_t i = 0; r == 0 && i < response->n_annotations; i++)
		r = put(container, PART_ANNOTATIONS, response->annotations[i]->key,
			text_json(response->annotations[i]->value));
	for (size_t i = 0; r == 0 && i < response->n_cdi_devices; i++)
		r = put(container, PART_CDI, response->cdi_devices[i]->name,
			text_json(response->cdi_devices[i]->name));
	return r;
}

int container_add_cdi(struct container *container, const char *name)
{
	return put(container, PART_CDI, name, text_json(name));
}

json_t *container_to_json(const struct container *container)
{
	json_t *json = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		json_t *part = json_incref(container->parts[i]), *value;
		const char *key;

		if (parts[i].is_array) {
			json_decref(part);
			part = json_array();
			json_object_foreach(container->parts[i], key, value)
			{
				if (json_array_append(part, value) < 0) {
					json_decref(part);
					part = NULL;
					break;
				}
			}
		}
		if (json_object_set_new(json, parts[i].name, part) < 0) {
			json_decref(json);
			return NULL;
		}
	}
	return json;
}

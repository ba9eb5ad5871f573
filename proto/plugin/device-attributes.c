/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which attributes the supervisor gets for the metadata of containers: those of the devices
 * of a container that is about to get them, and later, whenever they change, those of all devices
 * that containers have.
 */
#include "proto/plugin/device-attributes.h"

#include "common/control-child.h"
#include "common/sealed.h"
#include "drivers/inventory/published-attributes.h"

/* --- one device --- */

struct attribute_writer {
	struct json_writer *writer;
	bool any;
};

static void write_attribute(
	const char *name, enum attribute_type type, const char *value, void *userdata)
{
	struct attribute_writer *attributes = userdata;
	struct json_writer *writer = attributes->writer;

	json_write_text(writer, attributes->any ? "," : "");
	json_write_string(writer, name);
	json_write_text(writer, ":{");
	attributes->any = true;
	/* A list of numbers, see numa_near_add(). */
	if (streq(name, ATTRIBUTE_NUMA_NODE)) {
		json_write_text(writer, "\"ints\":[");
		json_write_text(writer, value);
		json_write_text(writer, "]}");
		return;
	}
	json_write_string(writer, attribute_types[type]);
	json_write_text(writer, ":");
	if (type == ATTRIBUTE_INT || type == ATTRIBUTE_BOOL)
		json_write_text(writer, value);
	else
		json_write_string(writer, value);
	json_write_text(writer, "}");
}

void device_attributes_write(struct json_writer *writer, const struct declaration *declaration,
	const struct device *device)
{
	struct attribute_writer attributes = { .writer = writer };

	json_write_text(writer, ",\"attributes\":{");
	published_attributes_each(declaration, device, write_attribute, &attributes);
	json_write_text(writer, "}");
}

void device_numa_write(struct json_writer *writer, const struct device *device)
{
	for (size_t k = 0; k < device->n_numa; k++) {
		json_write_text(writer, k > 0 ? "," : ",\"numa\":[");
		json_write_number(writer, (uint64_t)device->numa[k]);
	}
	json_write_text(writer, device->n_numa > 0 ? "]" : "");
}

/* --- a message --- */

struct message_writer {
	struct json_writer json;
	size_t n_devices;
};

/* Returns the descriptor that is written to, or negative errno. */
static int begin(struct message_writer *writer)
{
	int fd = sealed_begin("attributes");

	if (fd < 0)
		return fd;
	json_writer_init(&writer->json, fd);
	json_write_text(&writer->json, "[");
	writer->n_devices = 0;
	return fd;
}

static void add(struct message_writer *writer, const struct declaration *declaration,
	const struct device *device)
{
	json_write_text(&writer->json, writer->n_devices++ > 0 ? ",{\"id\":" : "{\"id\":");
	json_write_string(&writer->json, device->id);
	device_numa_write(&writer->json, device);
	device_attributes_write(&writer->json, declaration, device);
	json_write_text(&writer->json, "}");
}

static int finish(struct message_writer *writer)
{
	int r;

	json_write_text(&writer->json, "]");
	r = json_writer_finish(&writer->json);
	return r < 0 ? r : sealed_end(writer->json.fd);
}

int device_attributes_for_use(const struct offer *offer, const char *const *ids, size_t n_ids)
{
	struct message_writer writer;
	_cleanup_close_ int fd = begin(&writer);
	int r;

	if (fd < 0)
		return fd;
	for (size_t i = 0; i < n_ids && writer.n_devices < ATTRIBUTES_DEVICES_MAX; i++) {
		unsigned replica;
		size_t unit;

		if (snapshot_find(offer->snapshot, ids[i], &unit, &replica) >= 0)
			add(&writer, offer->applied_config->declaration,
				offer->snapshot->units[unit].device);
	}
	r = finish(&writer);
	return r < 0 ? r : TAKE_FD(fd);
}

/* --- all devices that containers have --- */

struct attributes_report {
	const struct declaration *declaration;
	const struct snapshot *snapshot;
	const struct bookings *booked;
	size_t at; /* the unit from which on devices are to be written */
	uint64_t hash;
};

/* Returns the descriptor of the next message, or negative errno. */
static int write_next(struct attributes_report *report)
{
	const struct snapshot *snapshot = report->snapshot;
	struct message_writer writer;
	_cleanup_close_ int fd = begin(&writer);
	int r;

	if (fd < 0)
		return fd;
	for (; report->at < snapshot->n_units && writer.n_devices < ATTRIBUTES_DEVICES_MAX;
		report->at++) {
		const struct device *device = snapshot->units[report->at].device;

		if (bookings_have_unit(report->booked, device->id, BOOKED_IN_PLUGIN))
			add(&writer, report->declaration, device);
	}
	r = finish(&writer);
	return r < 0 ? r : TAKE_FD(fd);
}

/* The text of a message is read back: it is in memory. */
static int add_to_hash(struct attributes_report *report, int fd)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = sealed_read(fd, ATTRIBUTES_BYTES_MAX, &text, &size);

	if (r >= 0)
		report->hash = (report->hash * 31 + hash_string(text)) | 1;
	return r;
}

/* Makes all messages, and sends them, or only their hash. */
static int make_messages(struct attributes_report *report, bool send)
{
	int r = 0;

	report->at = report->hash = 0;
	while (report->at < report->snapshot->n_units && r >= 0) {
		_cleanup_control_ struct control_message message =
			CHILD_MESSAGE_INIT(CHILD_ATTRIBUTES);

		r = message.fds[0] = write_next(report);
		if (r >= 0)
			r = send ? control_send(CONTROL_FD, &message)
				 : add_to_hash(report, message.fds[0]);
	}
	return r;
}

int device_attributes_report(const struct declaration *declaration, const struct snapshot *snapshot,
	const struct bookings *booked, uint64_t *sent)
{
	struct attributes_report report = {
		.declaration = declaration, .snapshot = snapshot, .booked = booked
	};
	uint64_t hash;
	int r;

	if (!declaration->metadata)
		return 0;
	r = make_messages(&report, false);
	hash = report.hash;
	if (r < 0 || hash == *sent)
		return r;
	r = make_messages(&report, true);
	if (r >= 0)
		*sent = hash;
	return r;
}

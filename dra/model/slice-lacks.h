/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an API server may lack of the fields that ResourceSlices use. A server drops a field whose
 * feature it does not have, without an error, or refuses a value that it does not know.
 */

#include <jansson.h>

#include "common/util.h"

/* In the order of the table in slice-lacks.c. */
enum slice_lack {
	LACK_TAINTS,
	LACK_COUNTERS,        /* a server before 1.35 wants them in the slice of the devices */
	LACK_NOTICES,         /* taints with the effect None */
	LACK_AMOUNTS,         /* devices that claims share by amount */
	LACK_LISTS,           /* attributes with several values */
	LACK_SHARED_COUNTERS, /* counters of devices that claims share by amount: before 1.37, the
			       * scheduler allocates exclusive parts twice
			       * (kubernetes/kubernetes#139040). Only the release shows it */
	LACK_MANY_TAINTS,     /* more than DRA_TAINTS_FEW_MAX. Only the release shows it */
	LACK_OTHER,           /* a field that is not in the table */
	_LACK_MAX,
};

/* For people: the feature, and its effect on what is published. */
const char *slice_lack_text(enum slice_lack lack);

/* The longest path of a field. */
#define SLICE_FIELD_MAX 128

/* Compares a slice as it was sent with the server's answer. Returns a set of bits
 * (1 << enum slice_lack) of fields that are not in the answer; `ret_other`: the path of the first
 * field that is not in the table, "" if there is none. Fields that the server has added or changed
 * are not dropped. */
unsigned slice_lacks_dropped(
	const json_t *sent, const json_t *stored, char ret_other[static SLICE_FIELD_MAX]);

/* Which fields of the table the slice has that a server may drop, as bits. */
unsigned slice_lacks_used(const json_t *slice);

/* Reads the Status with which the server refuses a slice. Returns the same set of bits, for fields
 * that the table has as refused, and that are in the slice. */
unsigned slice_lacks_refused(const json_t *slice, const json_t *status);

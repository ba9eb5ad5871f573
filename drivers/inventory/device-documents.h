/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the file that a resource's process writes about its devices (proto/plugin/plugin-report.c):
 * a document with all of them, and behind it documents with those that have changed since. The last
 * one may be incomplete, because it is just being written. Of a device, members with an empty text,
 * an empty array or 0 are left out, and `replicas` if there is one.
 */

#include <jansson.h>
#include <stdio.h>

/* Reads the stream to its end. Returns the first document with the members and devices of the later
 * ones (a new reference), or NULL if there is no complete document. */
json_t *device_documents_read(FILE *stream);
